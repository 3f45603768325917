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

type Cuts = BTreeMap<(usize, usize), Cut>;

/// All links of a cluster.
pub struct Links {
    cuts: watch::Sender<Cuts>,
    addresses: Vec<Vec<String>>,
}

/// One of them.
#[derive(Clone)]
struct Link {
    ends: (usize, usize),
    target: String,
    cuts: watch::Receiver<Cuts>,
}

impl Link {
    fn cut(&self) -> Option<Cut> {
        self.cuts.borrow().get(&self.ends).copied()
    }

    /// Ready when this link is no longer in this state.
    async fn changed(&mut self, from: Option<Cut>) {
        let ends = self.ends;
        let is_over = self.cuts.wait_for(|cuts| cuts.get(&ends).copied() != from);
        let _ = is_over.await;
    }

    async fn carry(mut self, mut from: TcpStream) {
        if self.cut().is_none() {
            let Ok(mut to) = TcpStream::connect(&self.target).await else {
                return;
            };
            let (_, _) = (from.set_nodelay(true), to.set_nodelay(true));
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut from, &mut to) => return,
                () = self.changed(None) => {}
            }
            if self.cut() == Some(Cut::Silent) {
                // Both ends wait; when the link is well again, they have to connect anew.
                self.changed(Some(Cut::Silent)).await;
            }
        } else if self.cut() == Some(Cut::Silent) {
            self.changed(Some(Cut::Silent)).await;
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
        let (cuts, _) = watch::channel(Cuts::new());
        let mut links = Links {
            cuts,
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
                    cuts: links.cuts.subscribe(),
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

    /// Cuts these links.
    pub fn cut(&self, links: impl IntoIterator<Item = (usize, usize)>, cut: Cut) {
        self.cuts.send_modify(|cuts| {
            cuts.extend(links.into_iter().map(|ends| (ends, cut)));
        });
    }

    /// Everything comes through again.
    pub fn heal(&self) {
        self.cuts.send_modify(BTreeMap::clear);
    }
}

/// All links of a node, both directions.
pub fn around(node: usize, nodes: usize) -> Vec<(usize, usize)> {
    let others = (0..nodes).filter(|other| *other != node);
    let both = |other| [(node, other), (other, node)];
    others.flat_map(both).collect()
}
