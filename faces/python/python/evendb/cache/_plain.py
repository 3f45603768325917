"""Pickles of plain data, read without unpickling: no name in them is looked up, nothing is called.

diskcache pickles all that is no text, bytes, int or float: None, True, lists, tuples and dicts too.
`plain_data` reads such a pickle by its opcodes, and knows 35 of Python's 68. Any other opcode (of
names, calls, objects, extensions) is `NotPlain`.

Work and memory are bounded by the pickle's length: a list or dict that is used twice is NotPlain
(as data without references it could be exponentially larger), and texts that are used again may
have AGAIN_BYTES together. Values are put on a stack, so there is no recursion.
"""

import pickletools

AGAIN_BYTES = 1 << 26

_MARK = object()
_IGNORED = {"PROTO", "FRAME"}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict}
_SCALARS = {
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE",
    "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8",
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS = {"BINPUT", "LONG_BINPUT"}
_GETS = {"BINGET", "LONG_BINGET"}


class NotPlain(ValueError):
    """The pickle has more than plain data in it, or is damaged."""


class _Reader:
    def __init__(self):
        self.stack = []
        self.memo = {}
        self.again = 0

    def step(self, name, argument):
        """One opcode."""
        stack = self.stack
        if name in _SCALARS:
            stack.append(argument)
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in _PUTS:
            self.memo[argument] = stack[-1]
        elif name in _GETS:
            stack.append(self._again(self.memo[argument]))
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _TUPLES:
            count = _TUPLES[name]
            if len(stack) < count:
                raise NotPlain("a tuple of more than there is")
            stack[-count:] = [tuple(stack[-count:])]
        elif name == "TUPLE":
            items = self._marked()
            stack.append(tuple(items))
        elif name in ("APPEND", "APPENDS"):
            items = [stack.pop()] if name == "APPEND" else self._marked()
            self._top(list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = [stack.pop(-2), stack.pop()] if name == "SETITEM" else self._marked()
            self._top(dict).update(zip(items[::2], items[1::2], strict=True))
        elif name not in _IGNORED:
            raise NotPlain(f"opcode {name}")

    def _again(self, value):
        if type(value) not in (str, bytes, int, float, bool, type(None)) and value != ():
            raise NotPlain("a list, tuple or dict that is used twice")
        if type(value) in (str, bytes):
            self.again += len(value)
            if self.again > AGAIN_BYTES:
                raise NotPlain("texts that are used very often")
        return value

    def _marked(self):
        """What is on the stack above the last mark."""
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise NotPlain("no mark")
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def _top(self, kind):
        if type(self.stack[-1]) is not kind:
            raise NotPlain(f"no {kind.__name__} where one should be")
        return self.stack[-1]


def plain_data(data):
    """The value of a pickle of plain data; NotPlain for any other one."""
    reader, ended = _Reader(), False
    try:
        for opcode, argument, _ in pickletools.genops(data):
            ended = opcode.name == "STOP"
            if not ended:
                reader.step(opcode.name, argument)
    except NotPlain:
        raise
    except Exception as error:
        raise NotPlain(f"a damaged pickle: {error!r}") from error
    if not ended or len(reader.stack) != 1 or reader.stack[0] is _MARK:
        raise NotPlain("the pickle ends early, or holds more than one value")
    return reader.stack[0]
