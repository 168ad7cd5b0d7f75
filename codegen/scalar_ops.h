/* Scalar operators of generated code, one text for C and OpenCL C: ef_NAME_TYPE(operands).

   Integer arithmetic wraps; a division by zero gives zero, as numpy does. Minimum and maximum
   propagate NaN. Nothing here branches, so that loops over these functions vectorise. */
#ifndef EF_SCALAR_OPS
#define EF_SCALAR_OPS
#ifdef __OPENCL_VERSION__
typedef char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;
#define EF_FN static inline
#define EF_F32(name) name
#define EF_BITS(x) as_uint(x)
#define EF_FLOAT(u) as_float(u)
#ifdef cl_khr_fp64
#define EF_HAS_F64
#endif
#else
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#define EF_FN static inline __attribute__((unused, always_inline))
#define EF_F32(name) name##f
#define EF_BITS(x) ef_bits(x)
#define EF_FLOAT(u) ef_float(u)
#define EF_HAS_F64
EF_FN uint32_t ef_bits(float x) {
    union { float f; uint32_t u; } v = {x};
    return v.u;
}
EF_FN float ef_float(uint32_t u) {
    union { uint32_t u; float f; } v = {u};
    return v.f;
}
#endif

/* Fused where the machine can; elsewhere two roundings, since a software fma is slow. */
#if defined(__OPENCL_VERSION__)
#define EF_FMA32(a, b, c) fma(a, b, c)
#define EF_FMA64(a, b, c) fma(a, b, c)
#elif defined(__FMA__) || defined(__aarch64__)
#define EF_FMA32(a, b, c) __builtin_fmaf(a, b, c)
#define EF_FMA64(a, b, c) __builtin_fma(a, b, c)
#else
#define EF_FMA32(a, b, c) ((a) * (b) + (c))
#define EF_FMA64(a, b, c) ((a) * (b) + (c))
#endif

#define EF_INTEGERS(T, s, WIDTH) \
    EF_FN T ef_min_##s(T a, T b) { return a < b ? a : b; } \
    EF_FN T ef_max_##s(T a, T b) { return a > b ? a : b; } \
    EF_FN T ef_neg_##s(T a) { return (T)(0 - a); } \
    EF_FN T ef_bit_not_##s(T a) { return (T)~a; } \
    EF_FN T ef_shift_left_##s(T a, T b) { \
        return (uint64_t)b < WIDTH ? (T)((uint64_t)a << ((uint64_t)b & 63)) : (T)0; } \
    EF_FN T ef_shift_right_##s(T a, T b) { \
        return (uint64_t)b < WIDTH ? (T)(a >> (b & (WIDTH - 1))) : (T)((a >> (WIDTH - 1)) >> 1); } \
    EF_FN T ef_power_##s(T a, T b) { \
        T out = 1; \
        for (; b; b = (T)(b >> 1)) { \
            if (b & 1) out = (T)(out * a); \
            a = (T)(a * a); \
        } \
        return out; }
#define EF_UNSIGNED(T, s, WIDTH) \
    EF_INTEGERS(T, s, WIDTH) \
    EF_FN T ef_abs_##s(T a) { return a; } \
    EF_FN T ef_sign_##s(T a) { return (T)(a > 0); } \
    EF_FN T ef_div_##s(T a, T b) { return b ? (T)(a / b) : (T)0; } \
    EF_FN T ef_fmod_##s(T a, T b) { return b ? (T)(a % b) : (T)0; } \
    EF_FN T ef_floordiv_##s(T a, T b) { return ef_div_##s(a, b); } \
    EF_FN T ef_floormod_##s(T a, T b) { return ef_fmod_##s(a, b); } \
    EF_FN T ef_pow_##s(T a, T b) { return ef_power_##s(a, b); }
/* Dividing by -1 is negation: the lowest number has no positive counterpart. */
#define EF_SIGNED(T, s, WIDTH) \
    EF_INTEGERS(T, s, WIDTH) \
    EF_FN T ef_abs_##s(T a) { return a < 0 ? (T)(0 - a) : a; } \
    EF_FN T ef_sign_##s(T a) { return (T)((a > 0) - (a < 0)); } \
    EF_FN T ef_div_##s(T a, T b) { \
        return b == -1 ? ef_neg_##s(a) : b ? (T)(a / b) : (T)0; } \
    EF_FN T ef_fmod_##s(T a, T b) { return b == -1 || !b ? (T)0 : (T)(a % b); } \
    EF_FN T ef_floordiv_##s(T a, T b) { \
        T q = ef_div_##s(a, b); \
        return (T)(q - (b && q * b != a && (a < 0) != (b < 0))); } \
    EF_FN T ef_floormod_##s(T a, T b) { \
        T r = ef_fmod_##s(a, b); \
        return (T)(r && (r < 0) != (b < 0) ? r + b : r); } \
    EF_FN T ef_pow_##s(T a, T b) { \
        return b >= 0 ? ef_power_##s(a, b) : a == 1 ? (T)1 : a == -1 ? (T)(b & 1 ? -1 : 1) : (T)0; }
EF_SIGNED(int8_t, i8, 8)
EF_SIGNED(int16_t, i16, 16)
EF_SIGNED(int32_t, i32, 32)
EF_SIGNED(int64_t, i64, 64)
EF_UNSIGNED(uint8_t, u8, 8)
EF_UNSIGNED(uint16_t, u16, 16)
EF_UNSIGNED(uint32_t, u32, 32)
EF_UNSIGNED(uint64_t, u64, 64)

/* ef_limit_max(c, x) is max(x, c) for a number c: one instruction, and NaN of x passes. */
#define EF_FLOATS(T, s, F, FUSED) \
    EF_FN T ef_fma_##s(T a, T b, T c) { return FUSED(a, b, c); } \
    EF_FN T ef_limit_max_##s(T c, T x) { return c > x ? c : x; } \
    EF_FN T ef_limit_min_##s(T c, T x) { return c < x ? c : x; } \
    EF_FN T ef_max_##s(T a, T b) { return ((a > b) | (a != a)) ? a : b; } \
    EF_FN T ef_min_##s(T a, T b) { return ((a < b) | (a != a)) ? a : b; } \
    EF_FN T ef_neg_##s(T x) { return -x; } \
    EF_FN T ef_abs_##s(T x) { return F(fabs)(x); } \
    EF_FN T ef_sign_##s(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : x; } \
    EF_FN T ef_floor_##s(T x) { return F(floor)(x); } \
    EF_FN T ef_ceil_##s(T x) { return F(ceil)(x); } \
    EF_FN T ef_round_##s(T x) { return F(rint)(x); } \
    EF_FN T ef_trunc_##s(T x) { return F(trunc)(x); } \
    EF_FN T ef_sqrt_##s(T x) { return F(sqrt)(x); } \
    EF_FN T ef_rsqrt_##s(T x) { return (T)1 / F(sqrt)(x); } \
    EF_FN T ef_reciprocal_##s(T x) { return (T)1 / x; } \
    EF_FN T ef_pow_##s(T x, T y) { return F(pow)(x, y); } \
    EF_FN T ef_fmod_##s(T x, T y) { return F(fmod)(x, y); } \
    EF_FN T ef_floormod_##s(T x, T y) { \
        T r = F(fmod)(x, y); \
        return (r < 0) != (y < 0) && r != 0 ? r + y : r; } \
    EF_FN bool ef_isnan_##s(T x) { return x != x; } \
    EF_FN bool ef_isinf_##s(T x) { return F(fabs)(x) == (T)INFINITY; } \
    EF_FN int32_t ef_i32_of_##s(T x) { \
        return x >= (T)-2147483648.0f && x < (T)2147483648.0f ? (int32_t)x : -2147483647 - 1; } \
    EF_FN int64_t ef_i64_of_##s(T x) { \
        return x >= (T)-9223372036854775808.0f && x < (T)9223372036854775808.0f \
                   ? (int64_t)x : (int64_t)(-9223372036854775807L - 1); } \
    EF_FN uint64_t ef_u64_of_##s(T x) { \
        return x < (T)9223372036854775808.0f || !(x < (T)18446744073709551616.0f) \
                   ? (uint64_t)ef_i64_of_##s(x) : (uint64_t)x; } \
    EF_FN uint32_t ef_u32_of_##s(T x) { return (uint32_t)ef_i64_of_##s(x); } \
    EF_FN int8_t ef_i8_of_##s(T x) { return (int8_t)ef_i32_of_##s(x); } \
    EF_FN int16_t ef_i16_of_##s(T x) { return (int16_t)ef_i32_of_##s(x); } \
    EF_FN uint8_t ef_u8_of_##s(T x) { return (uint8_t)ef_i32_of_##s(x); } \
    EF_FN uint16_t ef_u16_of_##s(T x) { return (uint16_t)ef_i32_of_##s(x); }
#define EF_LIBRARY(T, s, F, NAME) EF_FN T ef_##NAME##_##s(T x) { return F(NAME)(x); }
#define EF_LIBRARIES(T, s, F) \
    EF_LIBRARY(T, s, F, log1p) EF_LIBRARY(T, s, F, expm1) EF_LIBRARY(T, s, F, sin) \
    EF_LIBRARY(T, s, F, cos) EF_LIBRARY(T, s, F, tan) EF_LIBRARY(T, s, F, asin) \
    EF_LIBRARY(T, s, F, acos) EF_LIBRARY(T, s, F, atan) EF_LIBRARY(T, s, F, sinh) \
    EF_LIBRARY(T, s, F, cosh) EF_LIBRARY(T, s, F, asinh) EF_LIBRARY(T, s, F, acosh) \
    EF_LIBRARY(T, s, F, atanh)
EF_FLOATS(float, f32, EF_F32, EF_FMA32)
EF_LIBRARIES(float, f32, EF_F32)
#ifdef EF_HAS_F64
#define EF_F64(name) name
EF_FLOATS(double, f64, EF_F64, EF_FMA64)
EF_LIBRARIES(double, f64, EF_F64)
EF_LIBRARY(double, f64, EF_F64, exp)
EF_LIBRARY(double, f64, EF_F64, log)
EF_LIBRARY(double, f64, EF_F64, tanh)
EF_LIBRARY(double, f64, EF_F64, erf)
EF_FN double ef_sigmoid_f64(double x) {
    double small = exp(-fabs(x));
    return (x < 0 ? small : 1.0) / (1.0 + small);
}
EF_FN double ef_softplus_f64(double x) {
    return ef_limit_max_f64(0.0, x) + log1p(exp(-fabs(x)));
}
#endif

/* The 16-bit floats: to float exactly, from float to nearest even. */
EF_FN float ef_load_bf16(uint16_t h) { return EF_FLOAT((uint32_t)h << 16); }
EF_FN uint16_t ef_store_bf16(float x) {
    uint32_t u = EF_BITS(x);
    uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    return (uint16_t)(x != x ? u >> 16 | 0x40u : rounded);
}
EF_FN float ef_load_f16(uint16_t h) {
    uint32_t m = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t wide = (m << 13) + (m >= 0x7c00u ? 224u << 23 : 112u << 23);
    float small = (float)(int32_t)m * 0x1p-24f;
    return EF_FLOAT((m < 0x400u ? EF_BITS(small) : wide) | sign);
}
EF_FN uint16_t ef_store_f16(float x) {
    uint32_t u = EF_BITS(x), a = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
    /* 0.5f has the spacing of the subnormal halves, so adding it rounds to them. */
    uint32_t small = EF_BITS(EF_FLOAT(a) + 0.5f) - 0x3f000000u;
    uint32_t normal = (a + 0xfffu + (a >> 13 & 1u) - (112u << 23)) >> 13;
    uint32_t large = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
    return (uint16_t)(sign | (a >= 0x47800000u ? large : a < 0x38800000u ? small : normal));
}
EF_FN float ef_round_f16(float x) { return ef_load_f16(ef_store_f16(x)); }
EF_FN float ef_round_bf16(float x) { return ef_load_bf16(ef_store_bf16(x)); }
#endif
