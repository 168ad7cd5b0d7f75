/* Elementary functions on float, one text for C and OpenCL C, without branches, tables or calls, so
   that compilers vectorise loops over them. Polynomials are minimax fits of our own.

   Largest errors over all floats (tests/test_vector_math.py measures them), in units in the last
   place of the result; results below the smallest normal float are within one subnormal step:
     exp 1, log 1, tanh 2, erf 2, sigmoid 3, softplus 3.
   NaN gives NaN, infinities give the limit, exp overflows to infinity and underflows gradually. */
#ifndef EF_VECTOR_MATH
#define EF_VECTOR_MATH

/* e**x = 2**n * e**r with |r| <= log(2)/2; 2**n is applied in two steps for subnormal results.
   What underflows to 0 is taken where both factors are 0 (n = -254): masks are full of it, and
   arithmetic that rounds to 0 is slow. */
EF_FN float ef_exp_f32(float x) {
    float a = x < -104.0f ? -176.06f : x > 89.0f ? 89.0f : x;
    float shifted = EF_FMA32(a, 1.44269504f, 12582912.0f);
    float n = shifted - 12582912.0f;
    float r = EF_FMA32(n, -1.42860677e-6f, EF_FMA32(n, -0.693145752f, a));
    float p = EF_FMA32(0.00138331007f, r, 0.00836908072f);
    p = EF_FMA32(p, r, 0.0416681617f);
    p = EF_FMA32(p, r, 0.166665182f);
    p = EF_FMA32(p, r, 0.49999994f);
    p = EF_FMA32(p * r, r, r) + 1.0f;
    int32_t k = (int32_t)(EF_BITS(shifted) - 0x4b400000u);
    int32_t near = k >> 1;
    float first = EF_FLOAT((uint32_t)(near + 127) << 23);
    float second = EF_FLOAT((uint32_t)(k - near + 127) << 23);
    return p * first * second;
}

/* log x = k * log 2 + log m with m in [2/3, 4/3); subnormals are scaled up first. */
EF_FN float ef_log_f32(float x) {
    bool tiny = x < 1.17549435e-38f;
    uint32_t u = EF_BITS(tiny ? x * 33554432.0f : x);
    int32_t k = (int32_t)(u - 0x3f2aaaabu) >> 23;
    float f = EF_FLOAT(u - ((uint32_t)k << 23)) - 1.0f;
    float n = (float)(tiny ? k - 25 : k);
    float p = EF_FMA32(0.117133737f, f, -0.128716543f);
    p = EF_FMA32(p, f, 0.108252123f);
    p = EF_FMA32(p, f, -0.121902131f);
    p = EF_FMA32(p, f, 0.142987385f);
    p = EF_FMA32(p, f, -0.166799024f);
    p = EF_FMA32(p, f, 0.199997693f);
    p = EF_FMA32(p, f, -0.249998152f);
    p = EF_FMA32(p, f, 0.333333343f);
    p = EF_FMA32(p * f, f, -0.5f * f);
    p = EF_FMA32(n, 1.42860677e-6f, EF_FMA32(p, f, f));
    p = EF_FMA32(n, 0.693145752f, p);
    p = x == INFINITY ? x : p;
    p = x == 0.0f ? -INFINITY : p;
    return x < 0.0f || x != x ? (float)NAN : p;
}

EF_FN float ef_tanh_f32(float x) {
    float a = EF_F32(fabs)(x), z = x * x;
    float p = EF_FMA32(0.0021843093f, z, -0.00822068937f);
    p = EF_FMA32(p, z, 0.0217174757f);
    p = EF_FMA32(p, z, -0.0539496951f);
    p = EF_FMA32(p, z, 0.133332282f);
    p = EF_FMA32(p, z, -0.333333313f);
    float small = EF_FMA32(p * z, a, a);
    float large = 1.0f - 2.0f / (ef_exp_f32(2.0f * a) + 1.0f);
    float y = a < 0.6f ? small : large;
    return EF_FLOAT(EF_BITS(y) | (EF_BITS(x) & 0x80000000u));
}

/* Near zero a polynomial in x*x; beyond, 1 - e**-g(x) with g fitted to -log(1 - erf x). */
EF_FN float ef_erf_f32(float x) {
    float a = EF_F32(fabs)(x), z = x * x;
    float p = EF_FMA32(-0.000867219991f, z, 0.00284783985f);
    p = EF_FMA32(p, z, -0.00428174855f);
    p = EF_FMA32(p, z, 0.00736306654f);
    p = EF_FMA32(p, z, -0.0275536142f);
    p = EF_FMA32(p, z, 0.112943575f);
    p = EF_FMA32(p, z, -0.376132518f);
    p = EF_FMA32(p, z, 0.128379166f);
    float small = EF_FMA32(p, a, a);
    float t = a > 4.0f ? 4.0f : a;
    float g = EF_FMA32(-1.1126433e-06f, t, 1.78809114e-05f);
    g = EF_FMA32(g, t, -0.000103485312f);
    g = EF_FMA32(g, t, 5.97272519e-05f);
    g = EF_FMA32(g, t, 0.00294025196f);
    g = EF_FMA32(g, t, -0.0231221858f);
    g = EF_FMA32(g, t, 0.106166929f);
    g = EF_FMA32(g, t, 0.634753764f);
    g = EF_FMA32(g, t, 1.12897968f);
    g = EF_FMA32(g, t, -8.59420979e-05f);
    float large = 1.0f - ef_exp_f32(-g);
    float y = a < 0.92f ? small : large;
    y = x != x ? x : y;
    return EF_FLOAT(EF_BITS(y) | (EF_BITS(x) & 0x80000000u));
}

EF_FN float ef_sigmoid_f32(float x) {
    float small = ef_exp_f32(-EF_F32(fabs)(x));
    return (x < 0.0f ? small : 1.0f) / (1.0f + small);
}

/* log(1 + e) with the rounding of 1 + e made good. */
EF_FN float ef_softplus_f32(float x) {
    float small = ef_exp_f32(-EF_F32(fabs)(x));
    float u = 1.0f + small;
    float lost = small - (u - 1.0f);
    return ef_limit_max_f32(0.0f, x) + (ef_log_f32(u) + lost / u);
}
#endif
