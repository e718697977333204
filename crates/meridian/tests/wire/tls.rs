//! TLS as a client speaks it: for tokio-postgres, with channel binding.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A file of test certificates. All were signed by `ca.pem`, whose key is gone: the server's, the one that it is
/// renewed with, and that of a client whose common name is `carl`.
pub fn file(name: &str) -> String {
    format!("{}/tests/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// What a client trusts, and who it is.
pub fn config(with_certificate: bool) -> Arc<ClientConfig> {
    let mut authorities = RootCertStore::empty();
    authorities.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(authorities);
    Arc::new(match with_certificate {
        false => config.with_no_client_auth(),
        true => {
            let chain = vec![CertificateDer::from_pem_file(file("client.pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(file("client.key")).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    })
}

#[derive(Clone)]
pub struct Tls(pub Arc<ClientConfig>);

pub struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Tls;
    type Error = io::Error;
    fn make_tls_connect(&mut self, _: &str) -> io::Result<Tls> {
        Ok(self.clone())
    }
}

impl TlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;
    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from("localhost").expect("a name");
            Ok(Encrypted(TlsConnector::from(self.0).connect(name, socket).await?))
        })
    }
}

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates().expect("servers have certificates");
        let hash = ring::digest::digest(&ring::digest::SHA256, &certificates[0]);
        ChannelBinding::tls_server_end_point(hash.as_ref().to_vec())
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, bytes)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
