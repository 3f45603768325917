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
//! Bodies are postcard. A node that is not the leader answers 421. Whoever reaches the port can do
//! everything: authentication belongs in front.

#![allow(clippy::result_large_err, reason = "openraft has errors of that size")]

pub mod http;

use evendb_raft::machine::{Answer, Command, KeyValue};
use evendb_raft::openraft09::{LogStore, SnapshotFile, open};
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
    /// The ready state machine's types.
    pub Types: D = Command, R = Answer, SnapshotData = SnapshotFile
);

/// What `openraft` wants to know of an answer.
type Told<T, E> = Result<T, RPCError<u64, BasicNode, E>>;

struct Network;

struct Peer {
    id: u64,
    client: Client,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Peer {
        Peer {
            id: target,
            client: Client::new(&node.addr),
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
struct Server {
    id: u64,
    raft: Raft<Types>,
    log: LogStore<Types>,
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
        let done = self.raft.client_write(read::<Command>(body)?).await;
        // Here the command may have begun: the client must not take it for refused.
        let done = done.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        reply(&done.data)
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

fn consensus() -> openraft::Config {
    let entries = std::env::var("SERVE_SNAPSHOT_EVERY")
        .ok()
        .and_then(|text| text.parse().ok());
    openraft::Config {
        heartbeat_interval: 100,
        election_timeout_min: 400,
        election_timeout_max: 800,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(entries.unwrap_or(5000)),
        max_in_snapshot_log_to_keep: entries.map_or(1000, |entries| entries / 5),
        ..openraft::Config::default()
    }
}

/// Serves the node that the arguments of the program describe, until an error.
pub async fn serve(args: Vec<String>) -> Result<(), Box<dyn std::error::Error>> {
    let [dir, id, addresses @ ..] = &args[..] else {
        return Err("serve DIRECTORY NUMBER ADDRESS...".into());
    };
    let id: u64 = id.parse()?;
    let address = addresses
        .get(id as usize - 1)
        .ok_or("no address of this number")?;
    let small = |options: evendb::Options| options.memory_budget(64 << 20);
    let config = Config::new().keyspace("main").keep_changes(10_000);
    let config = config.log_options(small).state_options(small);
    let dir = dir.clone();
    let opened = tokio::task::spawn_blocking(move || open::<Types, _>(dir, config, KeyValue));
    let (log, machine) = opened.await??;
    let consensus = Arc::new(consensus().validate()?);
    let raft = Raft::new(id, consensus, Network, log.clone(), machine).await?;
    let server = Arc::new(Server {
        id,
        raft,
        log,
        addresses: addresses.to_vec(),
    });
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(connection(server.clone(), stream));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(std::env::args().skip(1).collect()))
}
