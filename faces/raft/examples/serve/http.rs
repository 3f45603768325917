//! HTTP with bodies in postcard: a client that keeps its connection, and what it asks a node.
//!
//! Not here: authentication and encryption of the traffic. They belong before a node that others
//! can reach.

use evendb_raft::machine::{Answer, Command};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// A connection to one node, made when it is needed.
pub struct Client {
    address: String,
    connection: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl Client {
    /// A client of the node at this address.
    pub fn new(address: &str) -> Client {
        Client {
            address: address.to_owned(),
            connection: Mutex::new(None),
        }
    }

    /// Posts bytes, and returns status and body. One request at a time.
    pub async fn post(&self, path: &str, body: Vec<u8>) -> io::Result<(StatusCode, Bytes)> {
        let mut place = self.connection.lock().await;
        // Put back when the answer has come: a request that is dropped leaves no connection.
        let mut connection = match self.kept(place.take()).await {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let request = Request::post(path).header("host", &self.address);
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(io::Error::other)?;
        let response = connection
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        let status = response.status();
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(io::Error::other)?
            .to_bytes();
        *place = Some(connection);
        Ok((status, body))
    }

    /// The connection, if it is ready for a request.
    async fn kept(
        &self,
        kept: Option<SendRequest<Full<Bytes>>>,
    ) -> Option<SendRequest<Full<Bytes>>> {
        let mut connection = kept?;
        connection.ready().await.ok()?;
        Some(connection)
    }

    async fn connect(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Posts a value, and returns the value of the answer; `None` if the node refused.
    pub async fn ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        question: &Q,
    ) -> io::Result<Option<A>> {
        let body = postcard::to_stdvec(question).map_err(io::Error::other)?;
        let (status, body) = self.post(path, body).await?;
        match status {
            StatusCode::OK => postcard::from_bytes(&body)
                .map(Some)
                .map_err(io::Error::other),
            _ => Ok(None),
        }
    }

    /// Has the cluster do a command. `None` if this node is no leader.
    ///
    /// # Errors
    /// If no answer came: the command may happen.
    #[allow(dead_code, reason = "a client's part, which the server does not use")]
    pub async fn command(&self, command: &Command) -> io::Result<Option<Answer>> {
        self.ask("/do", command).await
    }

    /// The value of a key, not older than the call. `None` if this node is no leader.
    ///
    /// # Errors
    /// If no answer came.
    #[allow(dead_code, reason = "a client's part, which the server does not use")]
    pub async fn get(&self, keyspace: &str, key: &[u8]) -> io::Result<Option<Option<Vec<u8>>>> {
        self.ask("/get", &(keyspace, key)).await
    }
}
