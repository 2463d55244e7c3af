/* The explicit Euler step of BOCF on an ny x nx grid with no-flux edges, float32, in one sweep: the baseline of benchmarks.
 * The switches are smooth (tanhf), or hard where `hard` is not 0. p: the 28 parameters in the order of the struct, then D/dx^2;
 * k: the sharpness of the switches theta_v, theta_w, theta_v_minus, theta_o. */
#include <math.h>

struct parameters {
    float u_o, u_u, theta_v, theta_w, theta_v_minus, theta_o, tau_v1_minus, tau_v2_minus, tau_v_plus, tau_w1_minus,
        tau_w2_minus, k_w_minus, u_w_minus, tau_w_plus, tau_fi, tau_o1, tau_o2, tau_so1, tau_so2, k_so, u_so, tau_s1, tau_s2,
        k_s, u_s, tau_si, tau_w_inf, w_inf_star, D;
};

/* tanhf of the C library is not vectorised everywhere: the rational approximation that XLA uses, to 2 ulp */
static inline float fast_tanh(float x) {
    x = fminf(fmaxf(x, -7.90531f), 7.90531f);
    const float x2 = x * x;
    float a = -2.76076847742355e-16f;
    a = a * x2 + 2.00018790482477e-13f;
    a = a * x2 - 8.60467152213735e-11f;
    a = a * x2 + 5.12229709037114e-08f;
    a = a * x2 + 1.48572235717979e-05f;
    a = a * x2 + 6.37261928875436e-04f;
    a = a * x2 + 4.89352455891786e-03f;
    float b = 1.19825839466702e-06f;
    b = b * x2 + 1.18534705686654e-04f;
    b = b * x2 + 2.26843463243900e-03f;
    b = b * x2 + 4.89352518554385e-03f;
    return x * a / b;
}

static inline float step(float x) { return 0.5f + 0.5f * fast_tanh(x); }

static inline float above(float x, float k, int hard) { return hard ? (x >= 0.0f ? 1.0f : 0.0f) : step(k * x); }

static inline float change(float below, float over, float h) { return below + (over - below) * h; }

static inline __attribute__((always_inline)) void sweep(int ny, int nx, float dt, const struct parameters *restrict p,
                                                        const float *restrict k, int hard, const float *restrict y,
                                                        float *restrict out) {
    const long n = (long)ny * nx;
    for (int i = 0; i < ny; i++) {
        const float *row = y + (long)i * nx, *up = i ? row - nx : row, *down = i < ny - 1 ? row + nx : row;
        const float *V = row + n, *W = row + 2 * n, *S = row + 3 * n;
        float *U1 = out + (long)i * nx, *V1 = U1 + n, *W1 = U1 + 2 * n, *S1 = U1 + 3 * n;
        for (int part = 0; part < 3; part++) {
            /* the edges on their own, so that the loop over the inside has no branch */
            const int first = part == 0 ? 0 : part == 1 ? 1 : nx - 1, last = part == 0 ? 1 : part == 1 ? nx - 1 : nx;
            const int left = part == 0 ? 0 : 1, right = part == 2 ? 0 : 1;
            for (int j = first; j < last; j++) {
                const float u = row[j], v = V[j], w = W[j], s = S[j];
                const float lap = row[j - left] + row[j + right] + up[j] + down[j] - 4.0f * u;
                const float hv = above(u - p->theta_v, k[0], hard), hw = above(u - p->theta_w, k[1], hard);
                const float hm = above(u - p->theta_v_minus, k[2], hard), ho = above(u - p->theta_o, k[3], hard);
                const float tau_w_minus = change(p->tau_w1_minus, p->tau_w2_minus, step(p->k_w_minus * (u - p->u_w_minus)));
                const float tau_so = change(p->tau_so1, p->tau_so2, step(p->k_so * (u - p->u_so)));
                const float w_inf = change(1.0f - u / p->tau_w_inf, p->w_inf_star, ho);
                const float fi = -v * hv * (u - p->theta_v) * (p->u_u - u) / p->tau_fi;
                const float so = (u - p->u_o) * (1.0f - hw) / change(p->tau_o1, p->tau_o2, ho) + hw / tau_so;
                const float si = -hw * w * s / p->tau_si;
                U1[j] = u + dt * (p->D * lap - (fi + so + si));
                V1[j] = v + dt * ((1.0f - hv) * (1.0f - hm - v) / change(p->tau_v1_minus, p->tau_v2_minus, hm) -
                                  hv * v / p->tau_v_plus);
                W1[j] = w + dt * ((1.0f - hw) * (w_inf - w) / tau_w_minus - hw * w / p->tau_w_plus);
                S1[j] = s + dt * ((step(p->k_s * (u - p->u_s)) - s) / change(p->tau_s1, p->tau_s2, hw));
            }
        }
    }
}

/* `steps` Euler steps from y to y (ny x nx values of u, v, w, s one after the other); `work` is as large as y */
void bocf_euler(int ny, int nx, int steps, float dt, const struct parameters *p, const float *k, int hard, float *y,
                float *work) {
    for (int n = 0; n < steps; n++) {
        float *from = n % 2 ? work : y, *to = n % 2 ? y : work;
        if (hard)
            sweep(ny, nx, dt, p, k, 1, from, to);
        else
            sweep(ny, nx, dt, p, k, 0, from, to);
    }
    if (steps % 2)
        for (long i = 0; i < 4L * ny * nx; i++) y[i] = work[i];
}
