"""The component tls-files: an authority from outside, with which the coordinator signs the pods of jobs."""

import subprocess

from cluster import main
from host_cluster import FIXED, SYSTEM, HostTest, counting


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class TlsFiles(HostTest):
    components = ("tls-files",)

    @classmethod
    def authority(cls):
        return cls.files / "authority.pem"

    @classmethod
    def before_it_starts(cls):
        cls.files = cls.cluster.folder / "identity"
        cls.files.mkdir()
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl("req", "-x509", *key, "-keyout", cls.files / "authority.key", "-out", cls.authority(), "-days", 30,
                "-subj", "/CN=authority from outside", "-addext", "basicConstraints=critical,CA:true",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        openssl("req", "-x509", *key, "-keyout", cls.files / "key.pem", "-out", cls.files / "certificate.pem",
                "-days", 30, "-subj", "/", "-CA", cls.authority(), "-CAkey", cls.files / "authority.key",
                "-addext", "basicConstraints=critical,CA:false", "-addext", "keyUsage=critical,digitalSignature",
                "-addext", "subjectAltName=URI:spiffe://outside/coordinator,DNS:muster.muster-system.svc")
        cls.cluster.kubectl("create", "secret", "generic", "-n", SYSTEM, "muster-identity", f"--from-file={cls.files}")

    def test_pods_are_signed_by_the_authority_from_outside(self):
        self.submit("outside", counting(FIXED))
        self.until_step("outside", 50)
        name = self.pods("outside")[0]["metadata"]["name"]
        shown = self.cluster.kubectl("exec", "-n", "muster-jobs", name, "--", "/opt/muster/bin/muster", "certs", "show",
                                     "/tmp/muster")
        self.assertIn("spiffe://outside/host/", shown)
        self.assert_done("outside")
        self.assertFalse((self.store / "muster/identity/authority.key").exists(), "it has none of its own")


if __name__ == "__main__":
    main()
