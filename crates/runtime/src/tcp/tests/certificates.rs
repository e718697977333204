//! Certificates that are read again while the node runs, and those that are not taken.

use super::*;
use std::os::unix::fs::PermissionsExt;
use tokio::net::{TcpListener, TcpStream};

/// Years from the beginning of which to the end of which a certificate is good.
const GOOD: (i32, i32) = (2000, 2090);

impl Authority {
    /// Writes what a node's directory of certificates has; answers the certificate.
    fn write(&self, directory: &Scratch, owner: &Owner, (from, to): (i32, i32)) -> Vec<u8> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![owner.dns_name()]).unwrap();
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(to, 12, 31);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (certificate_file, key_file) = owner.file_names();
        let key_file = directory.0.join(key_file);
        std::fs::write(directory.0.join(tls::CA_CERTIFICATE), &self.root_pem).unwrap();
        std::fs::write(directory.0.join(certificate_file), certificate.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(0o600)).unwrap();
        certificate.der().to_vec()
    }
}

/// The certificate that a node shows to others that connect now.
async fn shown(node: &Tls, authority: &Authority) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let security = Security::Tls(node.clone());
    let accepts = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        security.accept(stream).await.map(|_| ())
    });
    let Security::Tls(client) = authority.tls(Owner::Client("root".into())) else {
        unreachable!("it is TLS")
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = client.connector().connect(tls::server_name("n0").unwrap(), stream).await.unwrap();
    accepts.await.unwrap().unwrap();
    let chain = stream.get_ref().1.peer_certificates().unwrap();
    chain[0].to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_read_again_and_one_that_is_not_good_leaves_the_old_one_in_use() {
    let (directory, authority, owner) = (Scratch::new(), Authority::new("ours"), Owner::Node("n0".into()));
    let first = authority.write(&directory, &owner, GOOD);
    let tls = Tls::load(&directory.0, &owner).unwrap();
    assert_eq!(tls.expires_at().as_deref(), Some("2090-12-31 00:00:00 UTC"));
    assert_eq!(shown(&tls, &authority).await, first);

    authority.write(&directory, &owner, (2000, 2020));
    let expired = tls.reread().unwrap_err();
    assert!(expired.contains("node.n0.crt: the certificate expired at 2020-12-31 00:00:00 UTC"), "{expired}");
    assert!(expired.contains("`meridian cert create-node n0` makes new ones"), "{expired}");
    let refused = Tls::load(&directory.0, &owner).err();
    assert_eq!(refused.as_ref(), Some(&expired), "a start says the same");
    authority.write(&directory, &owner, (2080, 2090));
    let early = tls.reread().unwrap_err();
    assert!(early.contains("is not good before 2080-01-01 00:00:00 UTC"), "{early}");
    authority.write(&directory, &Owner::Node("n1".into()), GOOD);
    std::fs::copy(directory.0.join("node.n1.crt"), directory.0.join("node.n0.crt")).unwrap();
    let another = tls.reread().unwrap_err();
    assert!(another.contains("the certificate is of node n1, not of node n0"), "{another}");
    authority.write(&directory, &owner, GOOD);
    std::fs::write(directory.0.join("node.n0.crt"), "nothing").unwrap();
    let unreadable = tls.reread().unwrap_err();
    assert!(unreadable.contains("node.n0.crt"), "{unreadable}");
    authority.write(&directory, &owner, GOOD);
    std::fs::write(directory.0.join(tls::CA_CERTIFICATE), &Authority::new("theirs").root_pem).unwrap();
    let foreign = tls.reread().unwrap_err();
    assert!(foreign.contains("nodes that trust ca.crt would not take the certificate"), "{foreign}");
    assert_eq!(shown(&tls, &authority).await, first, "what was read before is in use");

    let second = authority.write(&directory, &owner, (2000, 2080));
    // A clone shows it too.
    let clone = tls.clone();
    tls.reread().unwrap();
    assert_eq!(shown(&clone, &authority).await, second);
    assert_eq!(clone.expires_at().as_deref(), Some("2080-12-31 00:00:00 UTC"));
}

#[test]
fn nodes_stay_connected_while_a_certificate_is_read_again_and_connect_with_the_new_one() {
    let ([one, other], at) = two();
    let (scratch, authority) = ([Scratch::new(), Scratch::new()], Authority::new("ours"));
    let (certs, owner) = (Scratch::new(), Owner::Node("n0".into()));
    authority.write(&certs, &owner, GOOD);
    let tls = Tls::load(&certs.0, &owner).unwrap();
    let first = Running::start(0, one, at, Security::Tls(tls.clone()), &scratch[0], |_| ());
    let second = Running::start(1, other, at, authority.node(1), &scratch[1], |_| ());
    first.wait_connected();
    second.wait_connected();
    authority.write(&certs, &owner, (2000, 2080));
    tls.reread().unwrap();
    assert!(first.links.peers()[0].sends, "connections that are there go on");
    drop(second);
    first.wait_for("gone", |peer| !peer.sends && !peer.receives);
    let second = Running::start(1, bind_again(at[1]), at, authority.node(1), &scratch[1], |_| ());
    first.wait_connected();
    second.wait_connected();
}
