"""The components tls-files and tls-certmanager: an authority from outside, with which the coordinator signs the pods of
jobs.
"""

import json
import ssl
import subprocess

from cluster import main
from host_cluster import FIXED, SYSTEM, HostTest, counting


KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class FromOutside(HostTest):
    """A subclass says by which component, and under which name of a cluster."""

    of_cluster = None

    @classmethod
    def authority(cls):
        return cls.files / "authority.pem"

    @classmethod
    def before_it_starts(cls):
        cls.files = cls.cluster.folder / "identity"
        cls.files.mkdir()
        openssl("req", "-x509", *KEY, "-keyout", cls.files / "authority.key", "-out", cls.authority(), "-days", 30,
                "-subj", "/CN=authority from outside", "-addext", "basicConstraints=critical,CA:true",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        cls.make_certificate()
        cls.put_secrets("create")

    @classmethod
    def make_certificate(cls):
        openssl("req", "-x509", *KEY, "-keyout", cls.files / "key.pem", "-out", cls.files / "certificate.pem",
                "-days", 30, "-subj", "/", "-CA", cls.authority(), "-CAkey", cls.files / "authority.key",
                "-addext", "basicConstraints=critical,CA:false", "-addext", "keyUsage=critical,digitalSignature",
                "-addext", f"subjectAltName=URI:spiffe://{cls.of_cluster}/coordinator,DNS:muster.muster-system.svc")

    def assert_signed_by_it(self, job):
        self.submit(job, counting(FIXED))
        self.until_step(job, 50)
        name = self.pods(job)[0]["metadata"]["name"]
        shown = self.cluster.kubectl("exec", "-n", "muster-jobs", name, "--", "/opt/muster/bin/muster", "certs", "show",
                                     "/tmp/muster")
        self.assertIn(f"spiffe://{self.of_cluster}/host/", shown)
        self.assert_done(job)
        self.assertFalse((self.store / "muster/identity/authority.key").exists(), "it has none of its own")


class TlsFiles(FromOutside):
    components, of_cluster = ("tls-files",), "outside"

    @classmethod
    def put_secrets(cls, how):
        cls.cluster.kubectl(how, "secret", "generic", "-n", SYSTEM, "muster-identity", f"--from-file={cls.files}")

    def test_pods_are_signed_by_the_authority_from_outside(self):
        self.assert_signed_by_it("outside")


class TlsCertManager(FromOutside):
    """What cert-manager would write into its secrets of type kubernetes.io/tls; nothing acts on its objects here."""

    components, of_cluster = ("tls-certmanager",), "muster"

    @classmethod
    def put_secrets(cls, how):
        for name, certificate, key in (("muster-authority", "authority.pem", "authority.key"),
                                       ("muster-coordinator-tls", "certificate.pem", "key.pem")):
            held = {"tls.crt": cls.files / certificate, "tls.key": cls.files / key, "ca.crt": cls.authority()}
            cls.cluster.kubectl(how, "-f", "-", text=json.dumps({
                "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                "metadata": {"name": name, "namespace": SYSTEM},
                "stringData": {entry: file.read_text() for entry, file in held.items()}}))

    def served(self):
        """The certificate that it shows whoever asks."""
        return ssl.get_server_certificate((self.address(), 8080))

    def test_pods_are_signed_and_a_new_certificate_is_read(self):
        self.assert_signed_by_it("certified")
        before = self.served()
        self.make_certificate()
        self.put_secrets("replace")
        self.until("the new certificate to be shown", lambda: self.served() != before, 180)
        self.assertEqual(self.ask("GET", "/v1/jobs/certified")[1]["state"], "done")


if __name__ == "__main__":
    main()
