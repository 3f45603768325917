//! [`Links`]: the connections between nodes, which all go through the process of the test, so that
//! it can drop them.
//!
//! ```text
//!   node 1 --- 127.0.0.1:p ---> a link of this process --- 127.0.0.1:q ---> node 2
//!                                 closed: no connection, and those that were there end
//!                                 silent: connections stay, and nothing comes through
//! ```
//! A link is for the requests of one node to another one, with their answers; the other direction
//! is another link. Clients reach nodes without links: a node that is cut off is still asked.

use std::collections::BTreeMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What a link does to what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Connections end at once, and new ones, too.
    Closed,
    /// Nothing comes through, and nobody is told.
    Silent,
}

/// A link's state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct State {
    cut: Option<Cut>,
    /// The number of times that it was cut. A connection lives no longer than until the next one.
    cuts: u64,
}

type States = BTreeMap<(usize, usize), State>;

/// All links of a cluster.
pub struct Links {
    states: watch::Sender<States>,
    addresses: Vec<Vec<String>>,
}

/// One of them.
#[derive(Clone)]
struct Link {
    ends: (usize, usize),
    target: String,
    states: watch::Receiver<States>,
}

impl Link {
    fn state(&self) -> State {
        let state = self.states.borrow().get(&self.ends).copied();
        state.unwrap_or_default()
    }

    /// Ready when this link is in another state.
    async fn changed(&mut self, from: State) {
        let ends = self.ends;
        let is_other = |states: &States| states.get(&ends).copied().unwrap_or_default() != from;
        let _ = self.states.wait_for(is_other).await;
    }

    /// Passes bytes on until an end. They were sent before the state was looked at: so what is sent
    /// after a cut never arrives.
    async fn pass(
        &self,
        began: State,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(len @ 1..) = from.read(&mut bytes).await {
            if self.state() != began || to.write_all(&bytes[..len]).await.is_err() {
                return;
            }
        }
    }

    async fn carry(mut self, mut from: TcpStream) {
        let began = self.state();
        if began.cut.is_none() {
            let Ok(mut to) = TcpStream::connect(&self.target).await else {
                return;
            };
            let (_, _) = (from.set_nodelay(true), to.set_nodelay(true));
            let mut watcher = self.clone();
            let ((from_read, from_write), (to_read, to_write)) = (from.split(), to.split());
            tokio::select! {
                () = self.pass(began, from_read, to_write) => {}
                () = self.pass(began, to_read, from_write) => {}
                () = watcher.changed(began) => {}
            }
        }
        let state = self.state();
        if state.cut == Some(Cut::Silent) {
            // Both ends wait; when the link is well again, they have to connect anew.
            self.changed(state).await;
        }
    }

    async fn serve(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(self.clone().carry(stream));
        }
    }
}

impl Links {
    /// Links from each of these nodes to each other one.
    pub async fn start(nodes: &[String]) -> Links {
        let (states, _) = watch::channel(States::new());
        let mut links = Links {
            states,
            addresses: Vec::new(),
        };
        for from in 0..nodes.len() {
            let mut addresses = nodes.to_vec();
            for (to, target) in nodes.iter().enumerate().filter(|(to, _)| *to != from) {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("is bound");
                addresses[to] = listener.local_addr().expect("has one").to_string();
                let link = Link {
                    ends: (from, to),
                    target: target.clone(),
                    states: links.states.subscribe(),
                };
                tokio::spawn(link.serve(listener));
            }
            links.addresses.push(addresses);
        }
        links
    }

    /// The addresses of all nodes, as this node reaches them.
    pub fn addresses_for(&self, node: usize) -> &[String] {
        &self.addresses[node]
    }

    /// Cuts these links. What their ends send from now on does not arrive.
    pub fn cut(&self, links: impl IntoIterator<Item = (usize, usize)>, cut: Cut) {
        self.states.send_modify(|states| {
            for ends in links {
                let state = states.entry(ends).or_default();
                state.cut = Some(cut);
                state.cuts += 1;
            }
        });
    }

    /// Everything comes through again.
    pub fn heal(&self) {
        self.states.send_modify(|states| {
            states.values_mut().for_each(|state| state.cut = None);
        });
    }
}

/// All links of a node, both directions.
pub fn around(node: usize, nodes: usize) -> Vec<(usize, usize)> {
    let others = (0..nodes).filter(|other| *other != node);
    let both = |other| [(node, other), (other, node)];
    others.flat_map(both).collect()
}
