"""numba, behind decorators: machine code made at the first call and kept beside the module for the next process.

What Python calls is `compiled`; what only compiled functions call is a `part`, or `aside` if it is long or rare. All
are compiled without the GIL and without fast-math, so results are exact; and without reference counts, so that none
may make an array.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba.core import cgutils, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic

P = ParamSpec("P")
R = TypeVar("R")

_stamps: dict[int, str] = {}
"""What the code of a compiled function depends on, by the function's identity."""
_OPTIONS = {"nopython": True, "nogil": True, "_nrt": False, "boundscheck": None}


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile the function when it is first called.

    The code is cached next to the source file, or in the user's cache folder where that cannot be written. Where
    neither can, it is compiled anew in each process.

    numba asks of a cached function only whether its own file has changed. What it calls is compiled into it, so its
    stamp must cover those functions and constants as well: define or import them before it, by their names.
    """
    made = _Dispatcher(function, targetoptions=_OPTIONS)
    _stamps[id(made)] = stamp = _stamp_of(function)
    try:
        made.enable_caching()
        index = made._cache._cache_file  # type: ignore[attr-defined]  # noqa: SLF001 - numba has no public way
        index._source_stamp = (index._source_stamp, stamp)  # noqa: SLF001
    except (AttributeError, RuntimeError):  # another numba, or no folder to cache in
        made = _Dispatcher(function, targetoptions=_OPTIONS)
        _stamps[id(made)] = stamp
    return cast("Callable[P, R]", made)


def part(function: Callable[P, R]) -> Callable[P, R]:
    """Compile the function into those that call it, and only there: from Python it cannot be called.

    numba optimises a function for itself, and once more in each one that calls it; of what is only ever a part of
    others the first is for nothing, and was most of the time of compiling.
    """
    made = _Part(function, targetoptions=_OPTIONS, pipeline_class=_PartCompiler)
    _stamps[id(made)] = _stamp_of(function)
    return cast("Callable[P, R]", made)


def aside(function: Callable[P, R]) -> Callable[P, R]:
    """Compile the function as a part that is called and not put in line, where that would only make code longer."""
    made = _Part(function, targetoptions=_OPTIONS, pipeline_class=_AsideCompiler)
    _stamps[id(made)] = _stamp_of(function)
    return cast("Callable[P, R]", made)


class _Dispatcher(CPUDispatcher):
    """Compiles the function once for a type, not once more for each constant that a compiled caller passes.

    That halves the time of the first use: what the function calls is compiled anew with it. And meanwhile nothing is
    collected, of which numba makes a lot, all in use: that would take a tenth of the time.
    """

    def compile(self, sig):  # noqa: ANN001, ANN202
        is_collecting = gc.isenabled()
        gc.disable()
        try:
            return super().compile(sig)
        finally:
            if is_collecting:
                gc.enable()

    def get_call_template(self, args, kws):  # noqa: ANN001, ANN202
        general = tuple(types.unliteral(one) for one in args)
        return super().get_call_template(
            general, {name: types.unliteral(one) for name, one in kws.items()}
        )


class _Part(_Dispatcher):
    def __call__(self, *_: object) -> None:
        raise TypeError(f"{self.py_func.__name__} is compiled into others; call one of those")


class _PartCompiler(Compiler):
    """numba's own, for functions without a life of their own: no code but what others link."""

    def define_pipelines(self):  # noqa: ANN202
        state = self.state
        state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        state.library = self.make_library(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()

    def make_library(self, codegen: object, name: str) -> _PartLibrary:
        """Return what holds the code."""
        return _PartLibrary(codegen, name)


class _AsideCompiler(_PartCompiler):
    def make_library(self, codegen: object, name: str) -> _PartLibrary:
        return _AsideLibrary(codegen, name)


class _PartLibrary(JITCodeLibrary):
    """Code that is linked into other code and optimised there."""

    def _optimize_functions(self, ll_module: object) -> None:
        pass

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002 - as the parent has it
        return 0

    @property
    def codegen(self) -> _PartLibrary:
        return self

    def set_env(self, name: str, env: object) -> None:
        """Leave the place of its Python objects empty: a part has none."""


class _AsideLibrary(_PartLibrary):
    def add_ir_module(self, ir_module) -> None:  # noqa: ANN001
        for function in ir_module.functions:
            if not function.is_declaration:
                function.attributes.add("noinline")
        super().add_ir_module(ir_module)


@intrinsic
def _fetch(_typing, table, at):  # noqa: ANN001, ANN202 - numba's own
    def generate(context, builder, signature, arguments):  # noqa: ANN001, ANN202
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        ir = cgutils.ir  # type: ignore[attr-defined]
        pointer, number = cgutils.voidptr_t, cgutils.int32_t
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        line = builder.gep(builder.bitcast(array.data, pointer), [arguments[1]])
        to_read, soon_again, data = number(0), number(3), number(1)
        builder.call(prefetch, [line, to_read, soon_again, data])
        return context.get_dummy_value()

    return types.void(table, at), generate


fetch = cast("Callable[[object, int], None]", _fetch)
"""Ask for the cache line with byte `at` of a contiguous table. Nothing waits for it; that it exists is not checked."""


def _stamp_of(function: Callable[P, R]) -> str:
    """Return a name of what the function does: of its code, and of what it takes from its module."""
    code = function.__code__
    seen = [code.co_code, code.co_names, code.co_consts, *_used_by(function)]
    return hashlib.sha256(repr(seen).encode()).hexdigest()


def _used_by(function: Callable[P, R]) -> list[tuple[str, object]]:
    """Return the compiled functions and the numbers that the function takes from its module, by name."""
    used: list[tuple[str, object]] = []
    for name in sorted(set(function.__code__.co_names)):
        value = function.__globals__.get(name)
        if isinstance(value, int | float):
            used.append((name, value))
        elif id(value) in _stamps:
            used.append((name, _stamps[id(value)]))
    return used
