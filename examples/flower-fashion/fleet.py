"""Start this app on one machine, and stop everything again: Flower's Simulation Engine, or a SuperLink with SuperNodes.

    python fleet.py simulate [--clients 6] [--run-config 'rounds="[0, 5]" seed=1']
    python fleet.py deploy   [--clients 6] [--run-config …] [--insecure]

`deploy` speaks TLS, and the SuperLink lets in only nodes whose keys were registered; certificates and keys are made on
the spot and thrown away. Everything listens on 127.0.0.1 only. Logs of a failed start are printed.
"""

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from fedteddi.flower.app import FINISHED

APP = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray asks nobody for a password and listens on all interfaces, unless it believes that it cannot have other nodes.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_ADDRESS": "local",  # a Ray of its own, whatever else runs on this machine
    "PYTHONUNBUFFERED": "1",
}
START_S, STOP_S = 60.0, 10.0
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Fleet:
    """Processes of one demonstration, in a folder of its own; `with` stops all of them, by process id."""

    def __init__(self, folder: Path, *, simulate: bool, secure: bool = False, app: Path = APP) -> None:
        self.folder, self.secure, self.app = folder, secure, app
        self.simulate = simulate
        self.port = free_port()
        self.superlink: subprocess.Popen[bytes] | None = None
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.others: list[subprocess.Popen[bytes]] = []
        self.env = os.environ | QUIET | {"FLWR_HOME": str(folder / "flwr")}
        # The programs of this interpreter's environment, also where nobody has activated it.
        self.env["PATH"] = f"{BIN}{os.pathsep}{self.env.get('PATH', '')}"
        (folder / "flwr").mkdir()

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_superlink(self) -> None:
        """Start the SuperLink and wait until it listens."""
        words = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)]
        words += ["--disable-runtime-dependency-installation"]
        connection = [f'address = "127.0.0.1:{self.port}"']
        if self.secure:
            make_certificates(self.folder)
            words += ["--ssl-ca-certfile", str(self.folder / "ca.crt")]
            words += ["--ssl-certfile", str(self.folder / "server.pem")]
            words += ["--ssl-keyfile", str(self.folder / "server.key"), "--enable-supernode-auth"]
            connection.append(f'root-certificates = "{self.folder / "ca.crt"}"')
        else:
            words.append("--insecure")
            connection.append("insecure = true")
        if self.simulate:
            words.append("--simulation")
        text = "\n".join(["[superlink]", 'default = "fleet"', "", "[superlink.fleet]", *connection, ""])
        (self.folder / "flwr" / "config.toml").write_text(text, encoding="utf-8")
        self.superlink = self._start(words, "superlink")
        self._wait_for(self.port, self.superlink, "superlink")

    def start_node(self, number: int, config: str = "") -> None:
        """Start (or start again) the SuperNode of one client."""
        words = ["flower-supernode", "--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port())]
        words += ["--node-config", f"partition-id={number} {config}".strip()]
        if self.secure:
            words += ["--root-certificates", str(self.folder / "ca.crt")]
            words += ["--auth-supernode-private-key", str(self.node_key(number))]
        else:
            words.append("--insecure")
        self.nodes[number] = self._start(words, f"node{number}")

    def wait_for_node(self, number: int, starts: int = 1) -> None:
        """Wait until the SuperLink knows the node that was started for the n-th time."""
        until = time.monotonic() + START_S
        while self.log(f"node{number}").count("SuperNode ID:") < starts:
            if time.monotonic() > until or self.nodes[number].poll() is not None:
                raise RuntimeError(f"node {number} does not start:\n{self.log(f'node{number}')[-3000:]}")
            time.sleep(0.2)

    def node_key(self, number: int) -> Path:
        """Return the private key of a node, made and registered at the SuperLink on first use."""
        key = self.folder / f"node{number}.key"
        if not key.exists():
            make_node_key(key)
            self.flwr("supernode", "register", f"{key}.pub", "fleet")
        return key

    def flwr(self, *words: str, timeout_s: float = 60.0) -> str:
        """Run a command of Flower's command line."""
        done = subprocess.run(
            [BIN / "flwr", *words],
            env=self.env,
            cwd=self.app,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"flwr {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def run(self, run_config: str, clients: int, timeout_s: float, show: bool = True) -> tuple[int, str]:
        """Run the app to its end; return flwr's exit status and what the ServerApp printed."""
        return self.wait_for_run(self.start_run(run_config, clients), timeout_s, show)

    def start_run(self, run_config: str, clients: int) -> "subprocess.Popen[bytes]":
        """Start the app."""
        words = ["flwr", "run", str(self.app), "fleet", "--stream"]
        words += ["--run-config", f"scenario.clients={clients} {run_config}".strip()]
        if self.simulate:
            resources = "client-resources-num-cpus=1 init-args-num-cpus=2"
            words += ["--federation-config", f"num-supernodes={clients} {resources}"]
        return self._start(words, "run", group=self.others)

    def wait_for_run(
        self, running: "subprocess.Popen[bytes]", timeout_s: float, show: bool = True
    ) -> tuple[int, str]:
        """Wait for a run's end, and show its rounds as they come."""
        shown, until = 0, time.monotonic() + timeout_s
        while True:
            ended = running.poll() is not None
            text = self.log("run")
            whole = text.rfind("\n") + 1  # a line may be half written
            for line in text[shown:whole].splitlines() if show else []:
                if line.startswith(("frame ", "not there", FINISHED)) or " clients are there" in line:
                    print(line, flush=True)
            shown = max(shown, whole)
            if ended:
                return running.wait(), text
            if time.monotonic() > until:
                raise RuntimeError(f"the run did not end within {timeout_s:g} s:\n{text[-3000:]}")
            time.sleep(0.3)

    def stop(self) -> None:
        """Stop what was started, and what that has started: ask first, then insist. Nothing may interrupt it."""
        before = {sign: signal.signal(sign, signal.SIG_IGN) for sign in STOPPING} if _main_thread() else {}
        started = [*self.others, *self.nodes.values()] + ([self.superlink] if self.superlink else [])
        # Flower puts some of its processes into groups of their own: so they are found by who started them.
        family = {pid for process in started for pid in (process.pid, *descendants(process.pid))}
        for how in (signal.SIGTERM, signal.SIGKILL):
            for pid in family:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, how)
            until = time.monotonic() + STOP_S
            while time.monotonic() < until and any(alive(pid) for pid in family):
                for process in started:
                    process.poll()
                family |= {child for pid in family for child in descendants(pid)}
                time.sleep(0.1)
        for process in started:  # what has ended is taken notice of
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
        for sign, handler in before.items():
            signal.signal(sign, handler)

    def log(self, name: str) -> str:
        """Return what a process has printed."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def _start(
        self, words: list[str], name: str, group: list[subprocess.Popen[bytes]] | None = None
    ) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(BIN / words[0]) if "/" not in words[0] else words[0], *words[1:]],
                env=self.env,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # a process group of its own, so that its children end with it
            )
        if group is not None:
            group.append(process)
        return process

    def _wait_for(self, port: int, process: subprocess.Popen[bytes], name: str) -> None:
        until = time.monotonic() + START_S
        while time.monotonic() < until and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.2)
        raise RuntimeError(f"{name} does not listen:\n{self.log(name)[-3000:]}")


def _main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have started."""
    parents: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(file.parent.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and waits to be noticed does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def free_port() -> int:
    """Return a port on 127.0.0.1 that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_certificates(folder: Path) -> None:
    """Make a certificate authority and a certificate for 127.0.0.1, good for one day."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.UTC)
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    places = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    for name, subject, key, is_authority in (
        ("ca.crt", "throw-away authority", authority_key, True),
        ("server.pem", "localhost", server_key, False),
    ):
        builder = (
            x509.CertificateBuilder()
            .subject_name(named(subject))
            .issuer_name(named("throw-away authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
        )
        if is_authority:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            builder = builder.add_extension(places, critical=False)
        certificate = builder.sign(authority_key, hashes.SHA256())
        (folder / name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write_private(folder / "server.key", private)


def make_node_key(path: Path) -> None:
    """Make a node's key pair: PATH and PATH.pub, as `ssh-keygen -t ecdsa -b 384` does."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    _write_private(path, private)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    Path(f"{path}.pub").write_bytes(public + b"\n")


def _write_private(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def main() -> int:
    """Start, run, stop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("engine", choices=["simulate", "deploy"])
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--run-config", default="", help="settings, as flwr run takes them")
    parser.add_argument("--insecure", action="store_true", help="deploy without TLS and node authentication")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds until the run is given up")
    options = parser.parse_args()
    simulate = options.engine == "simulate"
    for sign in (signal.SIGTERM, signal.SIGHUP):  # so that `with` stops the others
        signal.signal(sign, lambda number, _: sys.exit(128 + number))
    with (
        tempfile.TemporaryDirectory(prefix="fleet-") as folder,
        Fleet(Path(folder), simulate=simulate, secure=not simulate and not options.insecure) as fleet,
    ):
        fleet.start_superlink()
        if not simulate:
            for number in range(options.clients):
                fleet.start_node(number)
            how = "with TLS and node authentication" if fleet.secure else "without encryption"
            print(
                f"a SuperLink and {options.clients} SuperNodes on 127.0.0.1:{fleet.port}, {how}", flush=True
            )
        status, text = fleet.run(options.run_config, options.clients, options.timeout)
        if status or FINISHED not in text:  # flwr itself does not say how a run ended
            print(text[-4000:], file=sys.stderr)
            return status or 1
    print("all processes stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
