//! A replicated key-value store over HTTP: a vehicle for tests and a place to begin, not a product.
//!
//! ```console
//! $ cargo build --release --example serve
//! $ serve one 1 127.0.0.1:4001 127.0.0.1:4002 127.0.0.1:4003     directory, own number, addresses
//! $ curl -X POST http://127.0.0.1:4001/begin                     once, on one node
//! $ curl http://127.0.0.1:4001/leader
//! ```
//! | path | body | answer |
//! |---|---|---|
//! | `/do` | a command | the machine's answer |
//! | `/get` | keyspace and key | the value, not older than the call |
//! | `/begin` | | makes the cluster of all addresses |
//! | `/leader` | | the number of the leader, as text |
//! | `/raft/...` | openraft's messages | openraft's answers |
//!
//! Bodies are postcard. A node that is not the leader answers 421. The program ends with an error
//! when consensus has stopped, for example on a full disk: start it again when there is room. Each
//! node reaches the others at the addresses of its own command line. Who reaches the port can do
//! everything: authentication belongs in front.

#![allow(clippy::result_large_err, reason = "openraft has errors of that size")]

pub mod http;

use evendb_raft::machine::{Answer, Command, KeyValue};
use evendb_raft::openraft09::{Group, Grouped, LogStore, Proposer, SnapshotFile, open};
use evendb_raft::store::Config;
use http::Client;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, Raft, SnapshotPolicy};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};

openraft::declare_raft_types!(
    /// The ready state machine's types: commands that come together are one entry.
    pub Types: D = Group<Command>, R = Group<Answer>, SnapshotData = SnapshotFile
);

/// What `openraft` wants to know of an answer.
type Told<T, E> = Result<T, RPCError<u64, BasicNode, E>>;

/// The nodes' addresses, as this node reaches them.
struct Network(Vec<String>);

struct Peer {
    id: u64,
    client: Client,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Peer {
        let own = self.0.get(target as usize - 1);
        Peer {
            id: target,
            client: Client::new(own.unwrap_or(&node.addr)),
        }
    }
}

impl Peer {
    async fn send<Q, T, E>(&self, path: &str, rpc: Q, option: RPCOption) -> Told<T, E>
    where
        Q: Serialize,
        T: DeserializeOwned,
        E: std::error::Error + DeserializeOwned,
    {
        let asked = self.client.ask::<Q, Result<T, E>>(path, &rpc);
        let asked = tokio::time::timeout(option.hard_ttl(), asked).await;
        let answer = asked.unwrap_or_else(|late| Err(io::Error::other(late)));
        let answer = answer.map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))?;
        let refused = || RPCError::Unreachable(Unreachable::new(&io::Error::other("refused")));
        let answer = answer.ok_or_else(refused)?;
        answer.map_err(|error| RPCError::RemoteError(RemoteError::new(self.id, error)))
    }
}

impl RaftNetwork<Types> for Peer {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Told<AppendEntriesResponse<u64>, RaftError<u64>> {
        self.send("/raft/append", rpc, option).await
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Told<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>> {
        self.send("/raft/snapshot", rpc, option).await
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        option: RPCOption,
    ) -> Told<VoteResponse<u64>, RaftError<u64>> {
        self.send("/raft/vote", rpc, option).await
    }
}

/// A node.
pub struct Server {
    id: u64,
    /// Its consensus.
    pub raft: Raft<Types>,
    /// Proposes what clients ask for.
    pub proposer: Proposer<Types, Command, Answer>,
    /// Its log, by which all of its storage is reached.
    pub log: LogStore<Types>,
    addresses: Vec<String>,
}

/// An answer's body, or the status that refuses.
type Reply = Result<Vec<u8>, StatusCode>;

fn reply<T: Serialize>(value: &T) -> Reply {
    postcard::to_stdvec(value).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, StatusCode> {
    postcard::from_bytes(body).map_err(|_| StatusCode::BAD_REQUEST)
}

impl Server {
    async fn command(&self, body: &[u8]) -> Reply {
        // A node that knows that it is no leader has not begun anything.
        if self.raft.metrics().borrow().current_leader != Some(self.id) {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        let done = self.proposer.write(read::<Command>(body)?).await;
        // Here the command may have begun: the client must not take it for refused.
        let done = done.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        reply(&done.answer)
    }

    async fn get(&self, body: &[u8]) -> Reply {
        let (keyspace, key): (String, Vec<u8>) = read(body)?;
        let confirmed = self.raft.ensure_linearizable().await;
        confirmed.map_err(|_| StatusCode::MISDIRECTED_REQUEST)?;
        let value = self.log.store().state.get(&keyspace, &key).await;
        let value = value.map_err(|_| StatusCode::NOT_FOUND)?;
        reply(&value.map(|value| value.to_vec()))
    }

    async fn begin(&self) -> Reply {
        let nodes = (1..).zip(self.addresses.iter().map(BasicNode::new));
        let members: BTreeMap<u64, BasicNode> = nodes.collect();
        let begun = self.raft.initialize(members).await;
        begun.map(|()| Vec::new()).map_err(|_| StatusCode::CONFLICT)
    }

    async fn handle(&self, path: &str, body: &[u8]) -> Reply {
        match path {
            "/do" => self.command(body).await,
            "/get" => self.get(body).await,
            "/begin" => self.begin().await,
            "/leader" => {
                let leader = self.raft.metrics().borrow().current_leader;
                Ok(leader.map_or_else(Vec::new, |id| id.to_string().into_bytes()))
            }
            // Term, vote, log, what is applied, and whom the node takes for the leader. For people,
            // and for the tests of processes, which read `last_applied` in it.
            "/metrics" => Ok(format!("{:?}", self.raft.metrics().borrow()).into_bytes()),
            "/raft/append" => reply(&self.raft.append_entries(read(body)?).await),
            "/raft/vote" => reply(&self.raft.vote(read(body)?).await),
            "/raft/snapshot" => reply(&self.raft.install_snapshot(read(body)?).await),
            _ => Err(StatusCode::NOT_FOUND),
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let reply = match request.into_body().collect().await {
            Ok(body) => self.handle(&path, &body.to_bytes()).await,
            Err(_) => Err(StatusCode::BAD_REQUEST),
        };
        let (status, body) = match reply {
            Ok(body) => (StatusCode::OK, body),
            Err(status) => (status, Vec::new()),
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        response
    }
}

async fn connection(server: Arc<Server>, stream: TcpStream) {
    let service = service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    // The peer went away: it asks again.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn number_from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn consensus() -> openraft::Config {
    let entries = number_from_env("SERVE_SNAPSHOT_EVERY");
    openraft::Config {
        heartbeat_interval: 100,
        election_timeout_min: 400,
        election_timeout_max: 800,
        // The answer to the last piece of a snapshot comes when it is installed.
        install_snapshot_timeout: 60_000,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(entries.unwrap_or(5000)),
        max_in_snapshot_log_to_keep: entries.map_or(1000, |entries| entries / 5),
        ..openraft::Config::default()
    }
}

/// Opens the node of this number in a directory, and begins to take part in consensus.
///
/// # Errors
/// Those of openings, and a number without an address.
pub async fn start(
    dir: &str,
    id: u64,
    addresses: &[String],
    consensus: openraft::Config,
) -> Result<Arc<Server>, Box<dyn std::error::Error>> {
    if !(1..=addresses.len() as u64).contains(&id) {
        return Err(format!("no address of number {id}").into());
    }
    let mebibytes = number_from_env("SERVE_MEMORY_MIB").unwrap_or(64);
    let small = |options: evendb::Options| options.memory_budget(mebibytes << 20);
    let config = Config::new().keyspace("main");
    let config = config.log_options(small).state_options(small);
    let dir = dir.to_owned();
    let opened =
        tokio::task::spawn_blocking(move || open::<Types, _>(dir, config, Grouped(KeyValue)));
    let (log, machine) = opened.await??;
    let network = Network(addresses.to_vec());
    let consensus = Arc::new(consensus.validate()?);
    let raft = Raft::new(id, consensus, network, log.clone(), machine).await?;
    Ok(Arc::new(Server {
        id,
        proposer: Proposer::new(raft.clone()),
        raft,
        log,
        addresses: addresses.to_vec(),
    }))
}

impl Server {
    /// Answers what comes to its address, until an error.
    ///
    /// # Errors
    /// Those of the listener, and when consensus has stopped.
    pub async fn listen(self: Arc<Server>) -> Result<(), Box<dyn std::error::Error>> {
        let mut metrics = self.raft.metrics();
        let listener = TcpListener::bind(&self.addresses[self.id as usize - 1]).await?;
        loop {
            let (stream, _) = tokio::select! {
                accepted = listener.accept() => accepted?,
                // It ends with the metrics, or when they say that consensus has stopped.
                stopped = metrics.wait_for(|metrics| metrics.running_state.is_err()) => {
                    let why = stopped.map(|metrics| metrics.running_state.clone());
                    return Err(format!("consensus has stopped: {why:?}").into());
                }
            };
            stream.set_nodelay(true)?;
            tokio::spawn(connection(self.clone(), stream));
        }
    }
}

/// Serves the node that the arguments of the program describe, until an error.
///
/// # Errors
/// Those of [`start`] and [`Server::listen`].
pub async fn serve(args: Vec<String>) -> Result<(), Box<dyn std::error::Error>> {
    let [dir, id, addresses @ ..] = &args[..] else {
        return Err("serve DIRECTORY NUMBER ADDRESS...".into());
    };
    let server = start(dir, id.parse()?, addresses, consensus()).await?;
    server.listen().await
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(std::env::args().skip(1).collect()))
}
