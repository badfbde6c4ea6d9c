// LAMB and LARS: each beside a slow twin that has its very bits, and beside the formulas of the
// papers in fp64.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "lib/optim/optim.h"
#include "tests/lib/kernels/every_target.h"

namespace muster {
namespace {

float F(double x) { return static_cast<float>(x); }

// As norm.h and optim.h say: blocks of 4,096 from the tensor's first element, each in eight lanes.
double SlowNorm(const std::vector<float>& values) {
  double sum = 0;
  for (size_t begin = 0; begin < values.size(); begin += 4096) {
    std::array<double, 8> l{};
    for (size_t i = begin; i < std::min(begin + 4096, values.size()); ++i)
      l[(i - begin) % 8] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    sum += ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
  }
  return std::sqrt(sum);
}

double SlowPower(double base, int64_t exponent) {
  if (exponent == 0) return 1;
  const double half = SlowPower(base, exponent / 2);
  return exponent % 2 == 0 ? half * half : half * half * base;
}

struct Tensor {
  explicit Tensor(size_t n, uint64_t seed = 1)
      : parameters(WildFloats(n, seed)), slots{std::vector<float>(n), std::vector<float>(n)} {}

  Slots Used(OptimizerKind kind) {
    Slots used;
    for (int s = 0; s < SlotCount(kind); ++s) used[s] = absl::MakeSpan(slots[s]);
    return used;
  }
  void Apply(const OptimizerSpec& o, int64_t step, const TensorStep& how,
             const std::vector<float>& gradient) {
    ApplyToTensor(o, step, o.learning_rate, how, gradient, parameters, absl::MakeSpan(parameters),
                  Used(o.kind));
  }
  std::vector<std::vector<uint32_t>> AllBits() const {
    return {Bits(parameters), Bits(slots[0]), Bits(slots[1])};
  }

  std::vector<float> parameters;
  std::array<std::vector<float>, 2> slots;
};

void SlowLars(const OptimizerSpec& o, const TensorStep& how, std::vector<float> g, Tensor& t) {
  for (float& x : g) x = x * how.gradient_factor;
  const double w = SlowNorm(t.parameters), n = SlowNorm(g);
  float ratio = 1;
  if (how.adapts && w > 0 && n > 0) ratio = F(o.trust * w / (n + o.weight_decay * w + o.epsilon));
  for (size_t i = 0; i < g.size(); ++i) {
    float& p = t.parameters[i];
    if (o.weight_decay != 0) g[i] = g[i] + p * F(o.weight_decay);
    t.slots[0][i] = t.slots[0][i] * F(o.momentum) + g[i] * ratio;
    p = p + t.slots[0][i] * F(-o.learning_rate);
  }
}

void SlowLamb(const OptimizerSpec& o, int64_t step, const TensorStep& how, std::vector<float> g,
              Tensor& t) {
  std::vector<float> r(g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    g[i] = g[i] * how.gradient_factor;
    float &m = t.slots[0][i], &v = t.slots[1][i];
    m = m * F(o.beta1) + g[i] * F(1 - o.beta1);
    v = v * F(o.beta2) + g[i] * F(1 - o.beta2) * g[i];
    r[i] = m / F(1 - SlowPower(o.beta1, step + 1)) /
           (std::sqrt(v) / F(std::sqrt(1 - SlowPower(o.beta2, step + 1))) + F(o.epsilon));
    if (o.weight_decay != 0) r[i] = r[i] + t.parameters[i] * F(o.weight_decay);
  }
  const double w = SlowNorm(t.parameters), n = SlowNorm(r);
  const double ratio = how.adapts && w > 0 && n > 0 ? w / n : 1;
  for (size_t i = 0; i < g.size(); ++i)
    t.parameters[i] = t.parameters[i] + r[i] * F(-(o.learning_rate * ratio));
}

void SlowApply(const OptimizerSpec& o, int64_t step, const TensorStep& how,
               const std::vector<float>& gradient, Tensor& t) {
  o.kind == OptimizerKind::kLars ? SlowLars(o, how, gradient, t)
                                 : SlowLamb(o, step, how, gradient, t);
}

std::vector<OptimizerSpec> Specs() {
  std::vector<OptimizerSpec> specs;
  for (OptimizerKind kind : {OptimizerKind::kLars, OptimizerKind::kLamb})
    for (double decay : {0.0, 0.013})
      specs.push_back({.kind = kind,
                       .learning_rate = 0.03,
                       .momentum = 0.87,
                       .epsilon = 1e-6,
                       .trust = 0.02,
                       .weight_decay = decay});
  return specs;
}

const std::vector<TensorStep> kHow = {{true, 1}, {true, 0.37f}, {false, 0.37f}};

TEST(ApplyToTensor, EqualsItsSlowTwinOnEveryTarget) {
  std::vector<size_t> sizes(std::begin(kUglySizes), std::end(kUglySizes));
  sizes.insert(sizes.end(), {4096, 8192, 3 * 4096 + 5});
  ForEveryTarget([&] {
    for (const OptimizerSpec& spec : Specs()) {
      for (const TensorStep& how : kHow) {
        for (size_t n : sizes) {
          Tensor fast(n), slow = fast;
          for (int64_t step = 0; step < 3; ++step) {
            const std::vector<float> gradient = WildFloats(n, 100 + step);
            fast.Apply(spec, step, how, gradient);
            SlowApply(spec, step, how, gradient, slow);
            ASSERT_EQ(fast.AllBits(), slow.AllBits())
                << static_cast<int>(spec.kind) << " size " << n << " step " << step;
          }
        }
      }
    }
  });
}

// The papers' formulas in fp64, with no thought of order.
struct Exact {
  explicit Exact(const Tensor& t)
      : w(t.parameters.begin(), t.parameters.end()), m(w.size()), v(w.size()) {}

  static double Norm(const std::vector<double>& x) {
    double sum = 0;
    for (double e : x) sum += e * e;
    return std::sqrt(sum);
  }
  void Lars(const OptimizerSpec& o, const std::vector<float>& gradient) {
    const std::vector<double> g(gradient.begin(), gradient.end());
    const double local = o.trust * Norm(w) / (Norm(g) + o.weight_decay * Norm(w) + o.epsilon);
    for (size_t i = 0; i < w.size(); ++i) {
      m[i] = o.momentum * m[i] + local * (g[i] + o.weight_decay * w[i]);
      w[i] -= o.learning_rate * m[i];
    }
  }
  void Lamb(const OptimizerSpec& o, int64_t step, const std::vector<float>& gradient) {
    const auto t = static_cast<double>(step + 1);
    std::vector<double> r(w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = gradient[i];
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
      r[i] = m[i] / (1 - std::pow(o.beta1, t)) /
                 (std::sqrt(v[i] / (1 - std::pow(o.beta2, t))) + o.epsilon) +
             o.weight_decay * w[i];
    }
    const double ratio = Norm(w) / Norm(r);
    for (size_t i = 0; i < w.size(); ++i) w[i] -= o.learning_rate * ratio * r[i];
  }

  std::vector<double> w, m, v;
};

double LargestDistance(OptimizerSpec spec, double rate_error) {
  constexpr size_t kSize = 5003;
  Tensor ours(kSize, 3);
  Exact exact(ours);
  OptimizerSpec wrong = spec;
  wrong.learning_rate *= rate_error;
  for (int64_t step = 0; step < 30; ++step) {
    const std::vector<float> gradient = WildFloats(kSize, 50 + static_cast<uint64_t>(step));
    ours.Apply(wrong, step, {}, gradient);
    spec.kind == OptimizerKind::kLars ? exact.Lars(spec, gradient)
                                      : exact.Lamb(spec, step, gradient);
  }
  double largest = 0, size = Exact::Norm(exact.w) / std::sqrt(static_cast<double>(kSize));
  for (size_t i = 0; i < kSize; ++i)
    largest = std::max(largest, std::abs(static_cast<double>(ours.parameters[i]) - exact.w[i]));
  return largest / size;
}

TEST(ApplyToTensor, FollowsThePapersOverThirtySteps) {
  for (const OptimizerSpec& spec : Specs()) {
    EXPECT_LT(LargestDistance(spec, 1), 5e-6) << static_cast<int>(spec.kind);
    EXPECT_GT(LargestDistance(spec, 1.001), 6e-5) << "a wrong rate is caught";
  }
}

TEST(ApplyToTensor, WritesBesideTheOldParameters) {
  for (const OptimizerSpec& spec : Specs()) {
    Tensor in_place(9001), beside = in_place;
    const std::vector<float> gradient = WildFloats(9001, 9), old = beside.parameters;
    in_place.Apply(spec, 0, {}, gradient);
    ApplyToTensor(spec, 0, spec.learning_rate, {}, gradient, old, absl::MakeSpan(beside.parameters),
                  beside.Used(spec.kind));
    EXPECT_EQ(in_place.AllBits(), beside.AllBits());
    EXPECT_EQ(Bits(old), Bits(WildFloats(9001, 1)));
  }
}

// The rate of a tensor whose values are all 0, such as a fresh bias, and of one without a gradient.
TEST(ApplyToTensor, TheRatioIsOneWhereANormIsNone) {
  OptimizerSpec lars = {.kind = OptimizerKind::kLars, .learning_rate = 0.5, .momentum = 0};
  Tensor fresh(3);
  fresh.parameters.assign(3, 0.0f);
  fresh.Apply(lars, 0, {}, {1, 2, 4});
  EXPECT_EQ(fresh.parameters, std::vector<float>({-0.5f, -1, -2}));
  lars.weight_decay = 0.5;
  Tensor still(2);
  still.parameters = {2, -4};
  still.Apply(lars, 0, {}, {0, 0});
  EXPECT_EQ(still.parameters, std::vector<float>({1.5f, -3}));
  OptimizerSpec lamb = {.kind = OptimizerKind::kLamb, .learning_rate = 0.5};
  Tensor empty(2);
  empty.parameters.assign(2, 0.0f);
  empty.Apply(lamb, 0, {}, {0, 3});
  EXPECT_EQ(empty.parameters[0], 0.0f);
  EXPECT_NEAR(empty.parameters[1], -0.5f, 1e-6f);
  Tensor unmoved(2);
  unmoved.parameters = {1, 2};
  unmoved.Apply(lamb, 0, {}, {0, 0});
  EXPECT_EQ(unmoved.parameters, std::vector<float>({1, 2}));
}

// Each step of LAMB is as long as the rate says, whatever the gradient's size.
TEST(ApplyToTensor, AStepIsAsLongAsTheValuesSay) {
  OptimizerSpec lamb = {.kind = OptimizerKind::kLamb, .learning_rate = 0.01, .epsilon = 1e-12};
  for (const float size : {1e-4f, 1.0f, 1e4f}) {
    Tensor t(1000);
    const std::vector<float> old = t.parameters;
    std::vector<float> gradient = WildFloats(1000, 5), change(1000);
    for (float& g : gradient) g *= size;
    t.Apply(lamb, 0, {}, gradient);
    for (size_t i = 0; i < change.size(); ++i) change[i] = t.parameters[i] - old[i];
    EXPECT_NEAR(SlowNorm(change) / SlowNorm(old), 0.01, 1e-5);
  }
}

TEST(ApplyToTensor, PausesInLongWork) {
  int pauses = 0;
  Tensor t(300 * 4096);
  t.Apply(Specs().front(), 0, {true, 1, [&] { ++pauses; }}, WildFloats(300 * 4096, 2));
  EXPECT_EQ(pauses, 8) << "each megabyte, in both passes";
}

TEST(ApplyUpdate, OfATensorIsThatOfTheWhole) {
  for (const OptimizerSpec& spec : Specs()) {
    Tensor a(777), b = a;
    const std::vector<float> gradient = WildFloats(777, 8);
    a.Apply(spec, 4, {}, gradient);
    ApplyUpdate(spec, 4, spec.learning_rate, gradient, b.parameters, absl::MakeSpan(b.parameters),
                b.Used(spec.kind));
    EXPECT_EQ(a.AllBits(), b.AllBits());
  }
}

TEST(ApplyToTensorDeathTest, OthersAreElementWise) {
  std::vector<float> four(4);
  EXPECT_DEATH(ApplyToTensor({}, 0, 0.1, {}, four, four, absl::MakeSpan(four), {}),
               "broken invariant");
}

}  // namespace
}  // namespace muster
