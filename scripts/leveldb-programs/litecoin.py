"""litecoind as a judge of LevelDB's C++ interface: scripts/check-leveldb-programs runs it.

  litecoin.py LITECOIND OURS THEIRS OTHERS DIRECTORY

OURS, THEIRS  the directories of our libleveldb.so.1d and of Debian's
OTHERS        the directory of the other libraries that litecoind needs
DIRECTORY     an empty directory to work in

A node in regression-test mode, without peers and without a wallet, makes blocks and payments by RPC
on loopback. All payments are signed with one key that is written below. What the nodes know is
compared by `gettxoutsetinfo`, which hashes all unspent outputs, by the filter header of the last
block, which stands for the filters of all blocks, and by transactions looked up in the index.

  1. Our library: BLOCKS blocks; restart; -reindex; -reindex-chainstate. The state stays the same.
  2. Debian's library reads the same files of blocks (-reindex), and has the same state.
  3. Debian's library makes blocks, ours reads them: the same state.
  4. Our library: KILLS times the node is killed (SIGKILL) while it makes blocks and payments and
     flushes. It must start each time, with the last block that it had flushed, and with the same
     outputs if that is the newest. At the end -reindex-chainstate must find the same state. (The
     node's own verifychain is not asked: over many blocks with a small cache it ends the node by an
     assertion, with Debian's library, too.)

Environment: BLOCKS (default: 2000), KILLS (default: 10), SEED (default: 1), PORT (default: 29501).
It prints a line for each result, and ends with 1 after the first that is not as it must be.
"""

import base64
import hashlib
import http.client
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import time

BLOCKS = int(os.environ.get("BLOCKS", "2000"))
KILLS = int(os.environ.get("KILLS", "10"))
PORT = int(os.environ.get("PORT", "29501"))
SEED = int(os.environ.get("SEED", "1"))
# Blocks until a block's reward can be spent.
MATURITY = 100
SECONDS_MAX = 900
FEE = 10_000
# Blocks of an extension that is voted upon from this time on would need payments of another kind.
NEVER = 4_000_000_000
# Smaller outputs are not paid on.
OUTPUT_MIN = 200_000
# The error number of a node that has not started yet.
WARMING_UP = -28

litecoind, ours, theirs, others, work = sys.argv[1:6]
work = pathlib.Path(work)
random.seed(SEED)


def complain(message):
    print(f"FAILED: litecoind: {message}", flush=True)
    sys.exit(1)


def passed(message):
    print(f"litecoind: {message}", flush=True)


def private_key(number):
    """A key, as a test network's nodes write it."""
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    body = b"\xef" + bytes([1] * 31 + [number]) + b"\x01"
    body += hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4]
    rest, text = int.from_bytes(body, "big"), ""
    while rest:
        rest, digit = divmod(rest, 58)
        text = alphabet[digit] + text
    return text


# The key of all payments.
KEY = private_key(1)


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(error.get("message"))
        self.code = error.get("code")


# All that were made, so that none is left running.
NODES = []


class Node:
    """A process of litecoind with a directory and a LevelDB."""

    def __init__(self, directory, library):
        self.directory = directory
        self.library = library
        self.process = None
        NODES.append(self)
        directory.mkdir(parents=True, exist_ok=True)

    def start(self, *arguments):
        environment = dict(os.environ, LD_LIBRARY_PATH=f"{self.library}:{others}", HOME=str(work))
        command = [
            litecoind, "-regtest", f"-datadir={self.directory}", f"-rpcport={PORT}", "-server",
            "-listen=0", "-dnsseed=0", "-disablewallet", "-txindex=1", "-blockfilterindex=1",
            "-dbcache=4", "-rpcuser=judge", "-rpcpassword=judge", "-rpcbind=127.0.0.1",
            "-rpcallowip=127.0.0.1", "-printtoconsole=0", f"-vbparams=mweb:{NEVER}:{NEVER + 1}", *arguments,
        ]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        self.wait(lambda: self.rpc("getblockcount") >= 0, "answers")
        maps = pathlib.Path(f"/proc/{self.process.pid}/maps").read_text()
        loaded = {line.split()[-1] for line in maps.splitlines() if "libleveldb" in line}
        here = str(pathlib.Path(self.library).resolve())
        if not any(os.path.realpath(path).startswith(here) for path in loaded):
            complain(f"it has loaded {loaded}, and not the library in {here}")
        return self

    def rpc(self, method, *arguments):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=SECONDS_MAX)
        request = json.dumps({"method": method, "params": arguments, "id": 1})
        credentials = base64.b64encode(b"judge:judge").decode()
        headers = {"Authorization": f"Basic {credentials}", "Content-Type": "application/json"}
        try:
            connection.request("POST", "/", request, headers)
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if answer["error"] is not None:
            raise RpcError(answer["error"])
        return answer["result"]

    def wait(self, condition, what):
        """Until the condition holds: while the node starts, it does not answer or has an error."""
        end = time.monotonic() + SECONDS_MAX
        while time.monotonic() < end:
            if self.process.poll() is not None:
                self.show_log()
                complain(f"it has ended with {self.process.returncode}, before it {what}")
            try:
                if condition():
                    return
            except (OSError, http.client.HTTPException, ValueError):
                pass
            except RpcError as error:
                if error.code != WARMING_UP:
                    raise
            time.sleep(0.1)
        self.show_log()
        complain(f"it never {what}")

    def wait_for(self, height):
        def is_there():
            indexes = self.rpc("getindexinfo").values()
            return self.rpc("getblockcount") == height and all(
                index["synced"] and index["best_block_height"] == height for index in indexes
            )

        self.wait(is_there, f"has all of {height} blocks and their indexes")

    def stop(self):
        self.rpc("stop")
        code = self.process.wait(SECONDS_MAX)
        if code != 0:
            self.show_log()
            complain(f"it has ended with {code}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def show_log(self):
        log = self.directory / "regtest" / "debug.log"
        if log.exists():
            print("\n".join(log.read_text(errors="replace").splitlines()[-15:]), file=sys.stderr)

    def address(self, key=KEY):
        described = self.rpc("getdescriptorinfo", f"wpkh({key})")["descriptor"]
        return self.rpc("deriveaddresses", described)[0]

    def outputs(self):
        """The unspent outputs of the one key that may be spent: (transaction, number, amount)."""
        address = self.address()
        found = self.rpc("scantxoutset", "start", [f"addr({address})"])
        height = found["height"]
        unspent = [
            (output["txid"], output["vout"], round(output["amount"] * 1e8))
            for output in found["unspents"]
            if output["height"] <= height - MATURITY and output["amount"] * 1e8 > OUTPUT_MIN
        ]
        random.shuffle(unspent)
        return unspent

    def pay(self, output, address):
        """Spends an output: into several of about the same size."""
        transaction, number, amount = output
        parts = min(random.randint(1, 20), amount // OUTPUT_MIN)
        each = (amount - FEE) // parts
        if each < OUTPUT_MIN // 10:
            return
        # A transaction has one output of an address.
        to = [{each_address: f"{each / 1e8:.8f}"} for each_address in [address, *STRANGERS[: parts - 1]]]
        raw = self.rpc("createrawtransaction", [{"txid": transaction, "vout": number}], to)
        signed = self.rpc("signrawtransactionwithkey", raw, [KEY])
        self.rpc("sendrawtransaction", signed["hex"], 0)

    def state(self):
        """What must not depend on the library. It makes the node flush, too."""
        outputs = self.rpc("gettxoutsetinfo")
        # Its size on the disk is the library's own.
        del outputs["disk_size"]
        last = outputs["bestblock"]
        outputs["filter header"] = self.rpc("getblockfilter", last)["header"]
        sample = random.Random(SEED)
        for _ in range(20):
            block = self.rpc("getblockhash", sample.randint(1, outputs["height"]))
            for transaction in self.rpc("getblock", block)["tx"]:
                found = self.rpc("getrawtransaction", transaction, True)
                outputs[transaction] = (found["blockhash"], found["hash"])
        return outputs


STRANGERS = []


def make_strangers(node):
    """Addresses whose outputs stay unspent: one for each part of a payment."""
    for number in range(2, 22):
        STRANGERS.append(node.address(private_key(number)))


def make_blocks(node, height):
    """Blocks with payments up to this height."""
    address = node.address()
    if not STRANGERS:
        make_strangers(node)
    now = node.rpc("getblockcount")
    if now < 2 * MATURITY:
        node.rpc("generatetoaddress", min(height, 2 * MATURITY) - now, address)
    while (now := node.rpc("getblockcount")) < height:
        for output in node.outputs()[:50]:
            node.pay(output, address)
        node.rpc("generatetoaddress", min(random.randint(1, 40), height - now), address)


def same(before, after, what):
    if before != after:
        different = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        complain(f"{what}: these differ: {sorted(different)[:5]}")
    passed(f"{what}: the same state at height {after['height']}, {after['txouts']} outputs")


def read_blocks_of(maker, library, name):
    """A node with another library reads the files of a node's blocks."""
    node = Node(work / name, library)
    blocks = node.directory / "regtest" / "blocks"
    blocks.mkdir(parents=True)
    for file in (maker.directory / "regtest" / "blocks").glob("blk*.dat"):
        shutil.copy(file, blocks)
    return node


def check_same_state():
    node = Node(work / "ours", ours).start()
    make_blocks(node, BLOCKS)
    node.wait_for(BLOCKS)
    state = node.state()
    passed(f"with our library: {BLOCKS} blocks, {state['transactions']} transactions with outputs")
    node.stop()
    for arguments in [], ["-reindex"], ["-reindex-chainstate"]:
        node.start(*arguments)
        node.wait_for(BLOCKS)
        same(state, node.state(), " ".join(["started again", *arguments]))
        node.stop()
    judge = read_blocks_of(node, theirs, "theirs-of-ours").start("-reindex")
    judge.wait_for(BLOCKS)
    same(judge.state(), state, "the same blocks with Debian's library")
    judge.stop()

    maker = Node(work / "theirs", theirs).start()
    make_blocks(maker, BLOCKS // 2)
    maker.wait_for(BLOCKS // 2)
    state = maker.state()
    maker.stop()
    node = read_blocks_of(maker, ours, "ours-of-theirs").start("-reindex")
    node.wait_for(BLOCKS // 2)
    same(state, node.state(), "blocks made with Debian's library, read with ours")
    node.stop()


class Load:
    """Makes blocks and payments in one thread and flushes in another, until the node is gone."""

    def __init__(self, node):
        self.node = node
        self.flushed = None
        self.flushes = 0
        self.threads = [threading.Thread(target=self.run, args=[work]) for work in (self.pay, self.flush)]
        for thread in self.threads:
            thread.start()

    def run(self, work):
        try:
            while True:
                work()
        except (OSError, http.client.HTTPException, ValueError):
            # The node was killed.
            pass

    def pay(self):
        address = self.node.address()
        for output in self.node.outputs()[:20]:
            try:
                self.node.pay(output, address)
            except RpcError:
                # A payment of the time before the kill has spent it already.
                pass
        self.node.rpc("generatetoaddress", random.randint(1, 5), address)

    def flush(self):
        self.flushed = self.node.rpc("gettxoutsetinfo")
        self.flushes += 1

    def end(self):
        for thread in self.threads:
            thread.join()


def check_kills():
    node = Node(work / "killed", ours).start()
    make_blocks(node, 3 * MATURITY)
    at_newest = flushes = 0
    for number in range(KILLS):
        load = Load(node)
        time.sleep(random.uniform(0.2, 2.0))
        node.kill()
        load.end()
        flushes += load.flushes
        node.start()
        if load.flushed is None:
            continue
        height, block = load.flushed["height"], load.flushed["bestblock"]
        if node.rpc("getblockcount") < height or node.rpc("getblockhash", height) != block:
            complain(f"kill {number + 1}: block {height} was flushed, and is gone")
        if (number + 1) % 10 == 0:
            print(f"litecoind: {number + 1} kills, at block {height}", file=sys.stderr, flush=True)
        now = node.rpc("gettxoutsetinfo")
        if now["height"] == height:
            at_newest += 1
            if now["hash_serialized_2"] != load.flushed["hash_serialized_2"]:
                complain(f"kill {number + 1}: at block {height} the outputs are others than before")
    if KILLS > 0 and flushes == 0:
        complain("no kill came after a flush")
    height = node.rpc("getblockcount")
    node.wait_for(height)
    state = node.state()
    node.stop()
    node.start("-reindex-chainstate")
    node.wait_for(height)
    same(state, node.state(), f"after {KILLS} kills and {flushes} flushes (the last flush was the newest block "
         f"{at_newest} times), -reindex-chainstate")
    node.stop()


try:
    check_same_state()
    check_kills()
finally:
    for each in NODES:
        if each.process is not None and each.process.poll() is None:
            each.kill()
