"""Memoized functions: a call's arguments are the key, what it returns is the value.

The key is a tuple: the name, how many arguments are positional, those, and the keyword arguments in
the order of their names. The count says where keywords begin: a mark between them could be an
argument, too. The whole tuple is the key, not a hash of it: 1, 1.0, True and "1" are different
calls. Arguments must be what the cache's codec takes.

Functions that return awaitables (`async def`) are awaited, and the result is stored; calls of one
loop with the same key share one run. Plain functions take no lock: threads that miss at once all
compute. `memoize_stampede` and `barrier` (`_recipes`) are for that.
"""

import asyncio
import functools
import inspect
import warnings
import weakref

from ._disk import ENOVAL


def full_name(func):
    """Module and qualified name of a callable."""
    target = func
    while isinstance(target, functools.partial):
        target = target.func
    return f"{target.__module__}.{target.__qualname__}"


def args_to_key(base, args, kwargs, typed, ignore):
    """The key of a call. With `typed`, the types' names are a part of it."""
    if ignore:
        args = tuple(arg for index, arg in enumerate(args) if index not in ignore)
        kwargs = {name: value for name, value in kwargs.items() if name not in ignore}
    key = (*base, len(args), *args)
    names = sorted(kwargs)
    for name in names:
        key += (name, kwargs[name])
    if typed:
        values = [*args, *(kwargs[name] for name in names)]
        key += tuple(f"{type(v).__module__}.{type(v).__qualname__}" for v in values)
    return key


def base_of(cache, func, name):
    """The first part of a function's keys; ValueError if its name could be another's as well."""
    if name is not None:
        return (name,)
    name = full_name(func)
    if name.endswith("<lambda>"):
        raise ValueError("all lambdas of a module have one name; give memoize a name")
    code = getattr(inspect.unwrap(func), "__code__", None)
    known = cache.__dict__.setdefault("_memoized", {})
    before = known.setdefault(name, code)
    if before is not None and code is not None and before.co_code != code.co_code:
        warnings.warn(
            f"two functions named {name} share results in one cache; give memoize a name",
            stacklevel=5,
        )
    return (name,)


def refuse_generators(func):
    """TypeError for what has no one result."""
    plain = func
    while isinstance(plain, functools.partial):
        plain = plain.func
    if inspect.isasyncgenfunction(plain) or inspect.isgeneratorfunction(plain):
        raise TypeError(f"{full_name(func)} is a generator: it has no value that could be stored")


def refuse_awaitables(func, what):
    """TypeError for an `async def` where `what` needs a plain function."""
    plain = func
    while isinstance(plain, functools.partial):
        plain = plain.func
    if inspect.iscoroutinefunction(plain):
        raise TypeError(f"{full_name(func)} is an async def: {what} takes plain functions")


def refuse_result(func, result):
    """TypeError for a result that must be awaited: it cannot be stored."""
    if inspect.isawaitable(result):
        result.close() if inspect.iscoroutine(result) else None
        raise TypeError(f"{full_name(func)} returned an awaitable; decorate an async def")


def _wrap_async(func, key_of, lookup, save, place_of):
    """A wrapper that awaits; calls of one loop with one key share a task."""
    loops = weakref.WeakKeyDictionary()

    async def run(key, args, kwargs):
        result = await func(*args, **kwargs)
        save(key, result)
        return result

    @functools.wraps(func)
    async def wrapper(*args, **kwargs):
        key = key_of(*args, **kwargs)
        result = lookup(key)
        if result is not ENOVAL:
            return result
        loop = asyncio.get_running_loop()
        running, place = loops.setdefault(loop, {}), place_of(key)
        task = running.get(place)
        if task is None:
            task = running[place] = loop.create_task(run(key, args, kwargs))
            task.add_done_callback(lambda _: running.pop(place, None))
        # A caller that is cancelled does not cancel the others.
        return await asyncio.shield(task)

    return wrapper


class MemoMethods:
    """`memoize` of Cache and FanoutCache."""

    def memoize(self, name=None, typed=False, expire=None, tag=None, ignore=()):
        """A decorator: calls with arguments that were seen before give the stored result.

        `expire` in seconds; with `expire=0` nothing is stored. `ignore` has positions and names of
        arguments that are not a part of the key. The function is `__wrapped__`, and
        `__cache_key__(*args)` gives a call's key.
        """
        if callable(name):
            raise TypeError("name cannot be callable: write @cache.memoize()")
        keep = expire is None or expire > 0
        simple = not typed and not ignore
        get, put = self.get, self.set

        def save(key, result):
            if keep:
                put(key, result, expire, tag=tag, retry=True)

        def lookup(key):
            return get(key, ENOVAL, retry=True)

        def decorator(func):
            refuse_generators(func)
            base = base_of(self, func, name)

            def key_of(*args, **kwargs):
                return args_to_key(base, args, kwargs, typed, ignore)

            if inspect.iscoroutinefunction(func):
                wrapper = _wrap_async(func, key_of, lookup, save, self._place)
            else:

                @functools.wraps(func)
                def wrapper(*args, **kwargs):
                    if simple and not kwargs:
                        key = (*base, len(args), *args)
                    else:
                        key = args_to_key(base, args, kwargs, typed, ignore)
                    result = get(key, ENOVAL)
                    if result is ENOVAL:
                        result = func(*args, **kwargs)
                        refuse_result(func, result)
                        save(key, result)
                    return result

            wrapper.__cache_key__ = key_of
            return wrapper

        return decorator
