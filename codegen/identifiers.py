"""Names and comments in generated text: nothing that a model says reaches it unescaped."""

from __future__ import annotations

import re

_WORDS = (
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch "
    "typedef union unsigned void volatile while bool true false asm typeof half quad complex "
    "imaginary kernel global local private constant read_only write_only read_write uniform "
    "pipe generic image2d_t sampler_t uchar ushort uint ulong size_t ptrdiff_t intptr_t "
    "uintptr_t event_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t "
    "begin end thread context call scratch env buffers sizes zero_row linux unix main NULL "
    "INFINITY NAN I M_PI abs acos acosh asin asinh atan atanh ceil clamp cos cosh cross "
    "degrees distance dot erf erfc exp exp2 expm1 fabs fdim floor fma fmax fmin fmod fract "
    "frexp hypot ilogb isinf isnan ldexp length lgamma log log10 log1p log2 logb mad max "
    "memcpy memset min mix modf nan normalize pow pown powr radians remainder rint round "
    "rsqrt select sign sin sincos sinh sqrt step tan tanh tgamma trunc y0 y1 yn j0 j1 jn "
    "gamma index "
)
_TAKEN = frozenset(_WORDS.split())
_VECTOR_TYPE = re.compile(r"(u?(char|short|int|long)|float|double|half|bool)(2|3|4|8|16)\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9 _.,:;+()\[\]{}<>=%@!~|&/-]")
_COMMENT_LIMIT = 160


def identifier(name: str) -> str:
    """Return the C and OpenCL identifier of an IR name; different names stay different.

    >>> identifier("x"), identifier("int"), identifier("int_")
    ('x', 'int_', 'int__')
    """
    foreign = name.startswith(("ef_", "k_", "igemm_", "dwconv_", "dwline_", "pack_"))
    reserved = name in _TAKEN or bool(_VECTOR_TYPE.match(name)) or name.startswith(("get_", "as_"))
    return f"{name}_" if reserved or foreign or name.endswith("_") else name


def comment(note: str) -> str:
    """Return `note` as a one-line comment; what could end it or join lines becomes `_`.

    >>> comment("relu */ evil")
    '/* relu _/ evil */'
    """
    safe = _UNSAFE.sub("_", note)
    if len(safe) > _COMMENT_LIMIT:
        safe = safe[: _COMMENT_LIMIT - 3] + "..."
    return f"/* {safe} */"
