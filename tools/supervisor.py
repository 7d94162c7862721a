"""Runs one shell command so that its outcome, its output and its whole tree stay known when the agent dies.

    python -I -S supervisor.py PLACE

PLACE is the directory of the action (outputs/<session>/<action_id>); it exists and is private. The supervisor leaves
there `claim` (before the command starts), `stdout` and `stderr` (missing when empty) and `outcome`.

stdin is the control pipe. First comes the order (`encode_order`); later one byte `s` means stop, and end-of-file means
that the agent is dead: a foreground command then goes on to its own end or timeout, a background one is stopped.
SIGTERM, SIGINT and SIGHUP mean stop too. stdout tells the agent, one line each, and is never waited for:

    refused REASON    nothing was started (no claim was made)
    started PID       the claim is on disk and the shell runs
    out TOTAL         bytes of output so far, at most every 50 ms
    end OUTCOME       the JSON that is also in `outcome`

When processes of the command outlive their shell, the supervisor stays behind `end` as their guardian: it goes on
taking their output, and ends them on stop or when the agent is gone.

Needs Linux (/proc with task/*/children, subreaper). Start-up is most of the cost of a short command, so nothing is
imported that costs more than it gives: json, signal, subprocess and ctypes would each add 4 to 13 ms.
"""

# ruff: noqa: SIM105 - contextlib would cost a millisecond at every command

import _ctypes
import _signal  # type: ignore[import-not-found]  # the C half of `signal`; typeshed knows only the public one
import fcntl
import os
import select
import sys
import time

CLAIM, OUTCOME, STDOUT, STDERR = "claim", "outcome", "stdout", "stderr"
MARK = "MYCODEAGENT_ACTION"  # in the environment of every member: how survivors are found without their supervisor

HEAD_BYTES = 32 * 1024 * 1024
TAIL_BYTES = 32 * 1024 * 1024
FOOTER = b"\n[%020d bytes in all: the first 32 MiB, then the last 32 MiB as a ring; newest before offset %09d]\n"
FOOTER_BYTES = len(FOOTER % (0, 0))

LINGER_S = 0.25  # a process substitution may write a little longer than its shell
GRACE_S = 2.0  # between TERM and KILL
NEWCOMERS_S = 0.05  # how often, within it, processes are looked for that were forked meanwhile
KILL_S = 5.0  # how long members are killed that do not go away (uninterruptible sleep, other users')
TELL_S = 0.05
READ_BYTES = 256 * 1024
PIPE_BYTES = 1024 * 1024  # fewer wake-ups under load; the kernel may refuse it
RESERVED_BYTES = 8192  # the outcome fits even when the disk is full by then
LEFT_MAX = 20  # processes named in the outcome, so that it keeps to its block
SCRIPT_FD = 8  # one digit: dash knows no others in redirections
SECRET_MARK = b"[API key removed]"

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGCHLD, SIGCONT, SIGXFSZ = 1, 2, 9, 13, 15, 17, 18, 25
STOPPING = (SIGTERM, SIGINT, SIGHUP)
FOREVER = float("inf")

# The shell reads the command from a memory file: no limit of 128 KiB, and nobody reads it in the process list. It
# writes its directory into another one, through /proc, so that no member inherits that: at the end of the text (a
# user's own EXIT trap may have replaced ours) and in the trap (`exit 3`, `set -e`). `exec` leaves it unknown.
NOTE_DIRECTORY = (
    '{ set +ex; command pwd -P >|/proc/$PPID/fd/%(fd)d || printf "%%s\\n" "$PWD" >|/proc/$PPID/fd/%(fd)d; } 2>/dev/null'
)
WRAPPER = """trap '%(note)s' EXIT; eval "$(%(read)s)"%(newlines)s %(script)d<&-
{ set -- $?; set +ex; } 2>/dev/null
%(note)s
exit $1"""  # two newlines: one may be eaten by a backslash at the end of the text


def prctl(option: int, value: int) -> None:
    libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None is the running program
    _ctypes.call_function(_ctypes.dlsym(libc, "prctl"), (option, value, 0, 0, 0))


# -- what is known of processes (the agent's side uses these too)


def read_file(path: str) -> bytes:
    """The content of a small file, empty when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when there is none or only its zombie."""
    stat = read_file(f"/proc/{pid}/stat")
    fields = stat[stat.rfind(b")") + 2 :].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19])


def children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        found += [int(child) for child in read_file(f"/proc/{pid}/task/{thread}/children").split()]
    return found


def descendants(pid: int) -> list[int]:
    """All living processes below one, parents first."""
    found, todo = [], [pid]
    while todo:
        for child in children(todo.pop(0)):
            todo.append(child)
            if start_time(child) is not None:
                found.append(child)
    return found


def signal_quietly(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # gone in this moment, or not ours to signal: then it is listed as stuck


# -- JSON without the json module


def to_json(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(to_json(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{to_json(key)}:{to_json(item)}" for key, item in value.items()) + "}"
    units = str(value).encode("utf-16-be", "surrogatepass")
    codes = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    return '"' + "".join(chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\u{c:04x}" for c in codes) + '"'


# -- the order


def encode_order(
    *, background: bool, timeout_s: float, shell: str, cwd: str, command: str, secrets: "list[str]"
) -> bytes:
    """What the agent writes to the control pipe first. `timeout_s` 0 means none. No text may hold a NUL byte."""
    fields = ["bg" if background else "fg", repr(timeout_s), shell, cwd, command, *secrets]
    body = b"\0".join(os.fsencode(field) for field in fields)
    return b"%d\n%s" % (len(body), body)


class Order:
    def __init__(self, body: bytes) -> None:
        mode, timeout_s, shell, cwd, self.command, *self.secrets = body.split(b"\0")
        self.background = mode == b"bg"
        self.timeout_s = float(timeout_s) or FOREVER
        self.shell = os.fsdecode(shell)
        self.cwd = os.fsdecode(cwd)


def read_order() -> Order:
    """Leaves the process when the agent died before it had said everything."""
    size, body = b"", b""
    while not size.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            os._exit(0)
        size += byte
    while len(body) < int(size):
        piece = os.read(0, int(size) - len(body))
        if not piece:
            os._exit(0)
        body += piece
    return Order(body)


# -- output


class Redactor:
    """Replaces secrets in a stream, also where one is split over two reads."""

    def __init__(self, secrets: "list[bytes]") -> None:
        self.secrets = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self.held = b""  # the beginning of what may become a secret

    def feed(self, data: bytes) -> bytes:
        if not self.secrets:
            return data
        data = self.held + data if self.held else data
        for secret in self.secrets:
            data = data.replace(secret, SECRET_MARK)
        held = self._unfinished(data)
        self.held = data[len(data) - held :]
        return data[: len(data) - held] if held else data

    def _unfinished(self, data: bytes) -> int:
        for length in range(min(len(data), len(self.secrets[0]) - 1), 0, -1):
            end = data[-length:]
            if any(len(secret) > length and secret.startswith(end) for secret in self.secrets):
                return length
        return 0


class Spool:
    """One stream on disk: up to 64 MiB simply the output, beyond that its first and its last 32 MiB.

    The last part is a ring that is overwritten in place. A footer of fixed length right behind it says how many bytes
    came in all, hence where the ring begins. So memory, disk and time stay constant, a reader needs nobody's help, and
    nothing is lost when the supervisor is killed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = -1
        self.total = 0  # bytes that came
        self.stored = 0  # bytes that were written: less than `total` once the disk has failed
        self.error = 0  # errno of that failure; nothing more is kept then, so that there is no hole

    @property
    def kept(self) -> int:
        return min(self.stored, HEAD_BYTES + TAIL_BYTES)

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if self.error or not data:
            return
        try:
            self._store(memoryview(data))
        except OSError as error:  # a full disk: the command goes on, the loss is on record
            self.error = error.errno or -1

    def _store(self, data: memoryview) -> None:
        if self.fd < 0:
            self.fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        while data:
            if self.stored < HEAD_BYTES:
                offset, end = self.stored, HEAD_BYTES
            else:
                offset, end = HEAD_BYTES + (self.stored - HEAD_BYTES) % TAIL_BYTES, HEAD_BYTES + TAIL_BYTES
            count = os.pwrite(self.fd, data[: end - offset], offset)
            data = data[count:]
            self.stored += count
        if self.stored > HEAD_BYTES + TAIL_BYTES:
            newest = HEAD_BYTES + (self.stored - HEAD_BYTES) % TAIL_BYTES
            os.pwrite(self.fd, FOOTER % (self.stored, newest), HEAD_BYTES + TAIL_BYTES)


class Stream:
    """One pipe of the command with its spool."""

    def __init__(self, path: str, secrets: "list[bytes]") -> None:
        self.fd, self.write_end = os.pipe()
        try:
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            pass
        os.set_blocking(self.fd, False)
        self.open = True
        self.redactor = Redactor(secrets)
        self.spool = Spool(path)

    def read(self) -> bool:
        """Take what is there, at most one block; says whether there may be more."""
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self.spool.add(self.redactor.feed(data))
        else:
            self.close()
        return bool(data)

    def drain(self) -> None:
        """Take what is in the pipe now, and no more: a survivor may go on writing for ever."""
        for _ in range(PIPE_BYTES // READ_BYTES + 1):
            if not self.open or not self.read():
                return

    def close(self) -> None:
        if self.open:
            self.open = False
            os.close(self.fd)
            self.spool.add(self.redactor.held)


# -- the supervisor


class NotStarted(Exception):
    pass


class Supervisor:
    def __init__(self, place: str, order: Order) -> None:
        self.place, self.order = place, order
        self.pid = os.getpid()
        self.shell = 0
        self.status: int | None = None  # of the shell, as waitpid gives it
        self.childless = False  # nobody of ours is left: as subreaper we inherit every orphan
        self.agent_alive = True
        self.guarding = False
        self.stop_why = ""
        self.poll = select.poll()
        self.unsaid = b""  # what the agent was too slow to read; only whole lines are added
        self.told_total, self.told_at = 0, 0.0
        self.ended_at = 0.0

    # -- before the command

    def prepare(self) -> None:
        """Get everything that may be refused. Raises OSError."""
        os.chdir(self.order.cwd)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.script = os.memfd_create("command")
        self.directory = os.memfd_create("directory")
        view = memoryview(self.order.command)
        while view:
            view = view[os.write(self.script, view) :]
        os.lseek(self.script, 0, os.SEEK_SET)
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.streams = [Stream(f"{self.place}/{name}", self.order.secrets) for name in (STDOUT, STDERR)]
        self.outcome_temp = f"{self.place}/{OUTCOME}.{self.pid}.tmp"
        self.outcome_fd = os.open(self.outcome_temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(self.outcome_fd, 0, RESERVED_BYTES)
        self.wake, wake_end = os.pipe()
        for fd in (0, 1, self.wake, wake_end):
            os.set_blocking(fd, False)
        _signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        for number in (SIGCHLD, *STOPPING):
            _signal.signal(number, lambda _number, _frame: None)
        for fd in (0, self.wake, *(stream.fd for stream in self.streams)):
            self.poll.register(fd, select.POLLIN)

    def discard(self) -> None:
        """Leave no trace of a command that was not started."""
        try:
            os.unlink(self.outcome_temp)
        except (OSError, AttributeError):
            pass  # not made

    def start(self) -> None:
        """Start the command. Raises NotStarted when the agent is gone, the place is claimed, or a stop came first."""
        gate, gate_end = os.pipe()
        # A TERM between fork and exec would meet our own handler in the child, and be lost.
        _signal.pthread_sigmask(_signal.SIG_BLOCK, STOPPING)
        self.shell = os.fork()
        if self.shell == 0:
            self._become_shell(gate, gate_end)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, STOPPING)
        os.close(gate)
        os.chdir("/")  # do not keep the user's directory busy longer than the command does
        for stream in self.streams:
            os.close(stream.write_end)
        self.started_wall, self.started_at = time.time(), time.monotonic()
        self.turn(0)
        if not self.agent_alive:
            raise NotStarted("the agent is gone")
        if self.stop_why:
            raise NotStarted("it was stopped before it was started")
        if not self._claim():
            raise NotStarted("its place is claimed already")
        os.write(gate_end, b"g")
        os.close(gate_end)
        self.tell(f"started {self.shell}")

    def _become_shell(self, gate: int, gate_end: int) -> None:
        try:
            for number in STOPPING:
                _signal.signal(number, _signal.SIG_DFL)
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, STOPPING)
            os.close(gate_end)
            os.setsid()
            prctl(PR_SET_PDEATHSIG, SIGKILL)  # a killed supervisor takes the shell with it
            if os.read(gate, 1) != b"g" or os.getppid() != self.pid:
                os._exit(0)
            os.environ[MARK] = os.path.basename(self.place)
            os.dup2(self.null, 0)
            os.dup2(self.streams[0].write_end, 1)
            os.dup2(self.streams[1].write_end, 2)
            os.dup2(self.script, SCRIPT_FD)
            os.set_inheritable(SCRIPT_FD, True)
            for number in (SIGPIPE, SIGXFSZ):  # Python ignores them; the command must not
                _signal.signal(number, _signal.SIG_DFL)
            argv = self._argv()
            os.execv(argv[0], argv)
        except OSError as error:
            os.write(2, f"{self.order.shell}: {error.strerror}\n".encode())
        finally:
            os._exit(127)

    def _argv(self) -> "list[str]":
        shell, bash = self.order.shell, os.path.basename(self.order.shell) == "bash"
        wrapper = WRAPPER % {
            "note": NOTE_DIRECTORY % {"fd": self.directory},
            "read": f"</proc/self/fd/{SCRIPT_FD}" if bash else f"cat <&{SCRIPT_FD}",
            "newlines": "$'\\n\\n'" if bash else '"\n\n"',  # dash has no $'', bash counts the lines of a quoted one
            "script": SCRIPT_FD,
        }
        return [shell, *(["--norc"] if bash else []), "-c", wrapper, os.path.basename(shell)]

    def _claim(self) -> bool:
        """Link a finished file as `claim`: of several who try, exactly one succeeds.

        It needs no sync: after a power cut the boot id in the transcript says that nothing can be known.
        """
        claim = {
            "supervisor": [self.pid, start_time(self.pid)],
            "command": [self.shell, start_time(self.shell)],
            "boot_id": read_file("/proc/sys/kernel/random/boot_id").decode().strip(),
            "pid_namespace": os.readlink("/proc/self/ns/pid"),
            "host": os.uname().nodename,
            "started": self.started_wall,
        }
        temp = f"{self.place}/{CLAIM}.{self.pid}.tmp"
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.write(fd, to_json(claim).encode() + b"\n")
        os.close(fd)
        try:
            os.link(temp, f"{self.place}/{CLAIM}")
        except FileExistsError:
            return False
        finally:
            os.unlink(temp)
        return True

    # -- while it runs

    def tell(self, line: str) -> None:
        self.unsaid += os.fsencode(line).replace(b"\n", b" ") + b"\n"
        self._say()

    def _say(self) -> None:
        try:
            self.unsaid = self.unsaid[os.write(1, self.unsaid) :]
        except BlockingIOError:
            pass
        except OSError:
            self.unsaid = b""  # nobody listens
        if self.unsaid:
            self.poll.register(1, select.POLLOUT)
        else:
            try:
                self.poll.unregister(1)
            except KeyError:
                pass

    def turn(self, until: float) -> None:
        """Wait for the next event, at most until that monotonic time, and take in whatever happened."""
        total = sum(stream.spool.total for stream in self.streams)
        wait_s = until - time.monotonic()
        if total != self.told_total:
            wait_s = min(wait_s, self.told_at + TELL_S - time.monotonic())
        for fd, _ in self.poll.poll(None if wait_s == FOREVER else max(0, wait_s) * 1000):
            if fd == 0:
                self._listen()
            elif fd == 1:
                self._say()
            elif fd == self.wake:
                if any(number != SIGCHLD for number in os.read(fd, 512)):
                    self.stop_why = self.stop_why or "stopped"
            else:
                stream = self.streams[fd != self.streams[0].fd]
                stream.read()
                if not stream.open:
                    self.poll.unregister(fd)
        self._reap()
        total = sum(stream.spool.total for stream in self.streams)
        if total != self.told_total and not self.unsaid and time.monotonic() >= self.told_at + TELL_S:
            self.told_total, self.told_at = total, time.monotonic()
            self.tell(f"out {total}")

    def _listen(self) -> None:
        try:
            data = os.read(0, 64)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.stop_why = self.stop_why or "stopped"
            return
        self.agent_alive = False
        self.poll.unregister(0)
        if self.order.background or self.guarding:
            self.stop_why = self.stop_why or "agent_died"

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                return
            if pid == self.shell:
                self.status = status

    def watch(self) -> None:
        """Until the shell has ended and its output is in, or the whole tree was ended."""
        deadline = self.started_at + self.order.timeout_s
        while self.status is None and not self.stop_why:
            if time.monotonic() >= deadline:
                self.stop_why = "timeout"
            else:
                self.turn(deadline)
        linger_until = time.monotonic() + LINGER_S
        while not (self.childless or self.stop_why) and time.monotonic() < linger_until:
            self.turn(linger_until)
        if self.stop_why:
            self.end_tree()
        for stream in self.streams:
            stream.drain()

    def end_tree(self) -> None:
        """TERM to all, then KILL to what is left.

        KILL goes only to direct children, round after round: their pids cannot be used anew before we reap them, and
        every orphan becomes a direct child. CONT wakes the stopped ones, which would sleep through a TERM.
        """
        asked: set[tuple[int, int | None]] = set()
        grace_until = time.monotonic() + GRACE_S
        while not self.childless and time.monotonic() < grace_until:
            for pid in descendants(self.pid):
                if (process := (pid, start_time(pid))) not in asked:  # some are forked while the TERM goes round
                    asked.add(process)
                    signal_quietly(pid, SIGTERM)
                    signal_quietly(pid, SIGCONT)
            self.turn(min(grace_until, time.monotonic() + NEWCOMERS_S))
        kill_until = time.monotonic() + KILL_S
        while not self.childless and time.monotonic() < kill_until:
            for pid in children(self.pid):
                signal_quietly(pid, SIGKILL)
            self.turn(time.monotonic() + 0.002)

    # -- after it

    def conclude(self) -> None:
        """Write the outcome, durably, and tell it."""
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        living = [self._named(pid) for pid in (() if self.childless else descendants(self.pid))]
        out, err = (stream.spool for stream in self.streams)
        outcome = {
            "exit_code": code if code is None or code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "timed_out": self.stop_why == "timeout",
            "why": self.stop_why or "ended",
            "started": self.started_wall,
            "ended": time.time(),
            "seconds": time.monotonic() - self.started_at,
            "stdout_bytes": out.total,
            "stderr_bytes": err.total,
            "stdout_kept": out.kept,
            "stderr_kept": err.kept,
            "directory": self._last_directory(),
            "left": [] if self.stop_why else living[:LEFT_MAX],
            "left_count": 0 if self.stop_why else len(living),
            "stuck": living[:LEFT_MAX] if self.stop_why else [],
            "spool_error": os.strerror(out.error or err.error) if out.error or err.error else None,
        }
        text = to_json(outcome)
        try:
            self._write_outcome(text.encode() + b"\n")
        except OSError:
            pass  # the agent, if it lives, has it from the line below
        self.tell(f"end {text}")

    def _write_outcome(self, data: bytes) -> None:
        os.ftruncate(self.outcome_fd, os.pwrite(self.outcome_fd, data, 0))
        os.fdatasync(self.outcome_fd)
        os.close(self.outcome_fd)
        os.rename(self.outcome_temp, f"{self.place}/{OUTCOME}")
        for path in (self.place, os.path.dirname(self.place)):  # the place itself is new in its parent
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            os.fsync(fd)
            os.close(fd)

    def _named(self, pid: int) -> "list[object]":
        line = read_file(f"/proc/{pid}/cmdline")
        if line == "\0".join(self._argv()).encode() + b"\0":  # a subshell of the command: say which
            line = b"%s: %s" % (os.path.basename(self.order.shell).encode(), self.order.command)
        line = line.replace(b"\0", b" ").replace(b"\n", b" ").strip()
        for secret in self.order.secrets:
            line = line.replace(secret, SECRET_MARK) if secret else line
        return [pid, start_time(pid) or 0, line.decode("utf-8", "replace")[:120]]

    def _last_directory(self) -> str | None:
        text = os.pread(self.directory, 4097, 0)
        try:
            return text[:-1].decode() if text.startswith(b"/") and text.endswith(b"\n") else None
        except UnicodeDecodeError:
            return None  # no record could hold it

    def guard(self) -> None:
        """Stay as the parent of what the command left behind, until it is gone or nobody wants it any more."""
        self.guarding = True
        if not self.agent_alive:
            self.stop_why = self.stop_why or "agent_died"
        while not (self.childless or self.stop_why):
            self.turn(FOREVER)
        if not self.childless:
            self.end_tree()
        for stream in self.streams:
            stream.drain()
            stream.close()


def main() -> None:
    place = sys.argv[1]
    supervisor = Supervisor(place, read_order())
    with open("/proc/self/comm", "w") as comm:
        comm.write("mca-supervisor")  # `pkill python` inside a command must not hit us
    try:
        supervisor.prepare()
        supervisor.start()
    except (OSError, NotStarted) as error:
        supervisor.discard()
        reason = f"{error.strerror}: {error.filename or place}" if isinstance(error, OSError) else str(error)
        supervisor.tell(f"refused {reason}")
        os._exit(0)
    supervisor.watch()
    supervisor.conclude()
    supervisor.guard()
    os._exit(0)  # the interpreter's own way out costs 4 ms


if __name__ == "__main__":
    main()
