// Plimsoll for C++17: a thin layer over plimsoll.h, in this file only.
//
//   plimsoll::Device device;
//   auto add = device.kernel("add", [](plimsoll::In<float> a, plimsoll::In<float> b, plimsoll::Out<float> c) {
//       for (size_t i = 0; i < c.size(); ++i) c[i] = a[i] + b[i];
//   });
//   device.run([&](plimsoll::Orchestrator &o) {
//       auto a = o.own(std::vector<float>(64, 1), {64});
//       auto [sum] = o.submit(add, plimsoll::in(a), plimsoll::in(a), plimsoll::out<float>({64}));
//       auto values = o.read<float>(sum);
//   });
//
// Errors are exceptions (plimsoll::Error). An exception that leaves a kernel fails its task with the exception's text; one that
// leaves a program ends the run and comes out of run().
#ifndef PLIMSOLL_HPP
#define PLIMSOLL_HPP

#include "plimsoll.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace plimsoll {

/// Why a call or a run failed.
class Error : public std::runtime_error {
public:
    explicit Error(plimsoll_error *error)
        : std::runtime_error(plimsoll_error_text(error)), code_(plimsoll_error_code(error)),
          name_(plimsoll_error_name(error)), explanation_(plimsoll_error_explanation(error)),
          needed_(plimsoll_error_needed(error)) {
        const char *site = plimsoll_error_site(error);
        const char *kernel = plimsoll_error_kernel(error);
        site_ = site ? site : "";
        kernel_ = kernel ? kernel : "";
        plimsoll_error_free(error);
    }

    /// Its stable code: a plimsoll_code.
    uint32_t code() const { return code_; }
    const std::string &name() const { return name_; }
    /// What happened, why, and what to do.
    const std::string &explanation() const { return explanation_; }
    /// The capacity that gets the program past this point; 0 if nothing ran out.
    uint64_t needed() const { return needed_; }
    /// Where the scope was opened, as file:line; empty if that is not known.
    const std::string &site() const { return site_; }
    const std::string &kernel() const { return kernel_; }

private:
    uint32_t code_;
    std::string name_, explanation_, site_, kernel_;
    uint64_t needed_;
};

/// Throws what a call gave, if it gave anything.
inline void check(plimsoll_error *error) {
    if (error) throw Error(error);
}

/// The dtype of a C++ type; PLIMSOLL_USER, with its size, for any other that is trivially copyable.
template <class T> constexpr uint32_t dtype_of() {
    static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes");
    if constexpr (std::is_same_v<T, double>) return PLIMSOLL_F64;
    else if constexpr (std::is_same_v<T, float>) return PLIMSOLL_F32;
    else if constexpr (std::is_same_v<T, int64_t>) return PLIMSOLL_I64;
    else if constexpr (std::is_same_v<T, int32_t>) return PLIMSOLL_I32;
    else if constexpr (std::is_same_v<T, int16_t>) return PLIMSOLL_I16;
    else if constexpr (std::is_same_v<T, int8_t>) return PLIMSOLL_I8;
    else if constexpr (std::is_same_v<T, uint8_t>) return PLIMSOLL_U8;
    else return PLIMSOLL_USER;
}

template <class T> constexpr plimsoll_element element_of() {
    return plimsoll_element{dtype_of<T>(), static_cast<uint32_t>(sizeof(T)), static_cast<uint32_t>(alignof(T))};
}

/// A typed view of one argument of a kernel, valid during the call.
template <class T> class View {
public:
    explicit View(const plimsoll_view &view) : view_(&view) {}
    T *data() const { return static_cast<T *>(view_->data); }
    size_t ndim() const { return view_->ndim; }
    size_t shape(size_t dim) const { return view_->shape[dim]; }
    size_t stride(size_t dim) const { return static_cast<size_t>(view_->strides[dim]); }
    size_t size() const {
        size_t all = 1;
        for (size_t dim = 0; dim < ndim(); ++dim) all *= view_->shape[dim];
        return all;
    }
    /// Element `i` of a vector.
    T &operator[](size_t i) const { return data()[i * stride(0)]; }
    /// Element (i, j, …), one number per dimension.
    template <class... I> T &operator()(I... index) const {
        size_t at = 0, dim = 0;
        ((at += static_cast<size_t>(index) * stride(dim++)), ...);
        return data()[at];
    }

private:
    const plimsoll_view *view_;
};

/// What a kernel reads.
template <class T> struct In : View<const T> { using View<const T>::View; };
/// What a kernel writes.
template <class T> struct Out : View<T> { using View<T>::View; };
/// What a kernel reads and writes.
template <class T> struct InOut : View<T> { using View<T>::View; };

/// Which execution of its task a kernel is that runs in blocks or as a part of a mixed task; its first parameter.
class Block {
public:
    explicit Block(const plimsoll_call *call) : call_(call) {}
    uint32_t index() const { return call_->block; }
    uint32_t count() const { return call_->blocks; }
    /// Which part of a mixed task: 0 is the one on the matrix core.
    uint32_t part() const { return call_->part; }
    /// Gives a value of at most 8 bytes to another part of the block. Throws if nobody will ever take it.
    template <class T> void push(uint32_t to, T value) const {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "a pipe passes up to 8 bytes");
        uint64_t bits = 0;
        std::memcpy(&bits, &value, sizeof value);
        if (call_->push(call_, to, bits)) throw std::runtime_error("the other part takes no value");
    }
    /// Takes the next value that another part of the block gave. Throws if none will ever come.
    template <class T> T pop(uint32_t from) const {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "a pipe passes up to 8 bytes");
        uint64_t bits = 0;
        if (call_->pop(call_, from, &bits)) throw std::runtime_error("the other part gives no value");
        T value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }

private:
    const plimsoll_call *call_;
};

namespace detail {

template <class T> struct Parameter {
    static_assert(std::is_arithmetic_v<T>, "a kernel takes In, Out, InOut and plain numbers");
    static plimsoll_param describe() { return {PLIMSOLL_VALUE, element_of<T>(), 0}; }
    static T fetch(const plimsoll_view &view) {
        if constexpr (std::is_floating_point_v<T>) {
            T value;
            std::memcpy(&value, &view.bits, sizeof value);
            return value;
        } else {
            return static_cast<T>(view.bits);
        }
    }
};
template <class T> struct Parameter<In<T>> {
    static plimsoll_param describe() { return {PLIMSOLL_READ, element_of<T>(), 0}; }
    static In<T> fetch(const plimsoll_view &view) { return In<T>(view); }
};
template <class T> struct Parameter<Out<T>> {
    static plimsoll_param describe() { return {PLIMSOLL_WRITE, element_of<T>(), 0}; }
    static Out<T> fetch(const plimsoll_view &view) { return Out<T>(view); }
};
template <class T> struct Parameter<InOut<T>> {
    static plimsoll_param describe() { return {PLIMSOLL_READ_WRITE, element_of<T>(), 0}; }
    static InOut<T> fetch(const plimsoll_view &view) { return InOut<T>(view); }
};

template <class F> struct Signature : Signature<decltype(&F::operator())> {};
template <class... A> struct Takes {
    using Arguments = std::tuple<std::decay_t<A>...>;
};
template <class R, class... A> struct Signature<R (*)(A...)> : Takes<A...> {};
template <class R, class... A> struct Signature<R (*)(A...) noexcept> : Takes<A...> {};
template <class C, class R, class... A> struct Signature<R (C::*)(A...) const> : Takes<A...> {};
template <class C, class R, class... A> struct Signature<R (C::*)(A...) const noexcept> : Takes<A...> {};
template <class C, class R, class... A> struct Signature<R (C::*)(A...)> : Takes<A...> {};
template <class C, class R, class... A> struct Signature<R (C::*)(A...) noexcept> : Takes<A...> {};

/// Whether a body changes what it captured, as a mutable lambda does. Several workers call it at the same time, so every call is
/// given a copy of its own.
template <class F, class = void> constexpr bool changes_itself = false;
template <class M> struct IsConst : std::false_type {};
template <class C, class R, class... A> struct IsConst<R (C::*)(A...) const> : std::true_type {};
template <class C, class R, class... A> struct IsConst<R (C::*)(A...) const noexcept> : std::true_type {};
template <class F>
constexpr bool changes_itself<F, std::void_t<decltype(&F::operator())>> = !IsConst<decltype(&F::operator())>::value;

template <class F, class... A, size_t... At>
void invoke(F &body, const plimsoll_call *call, std::tuple<A...> *, std::index_sequence<At...>) {
    body(Parameter<A>::fetch(call->args[At])...);
}

template <class F, class... A, size_t... At>
void invoke(F &body, const plimsoll_call *call, std::tuple<Block, A...> *, std::index_sequence<0, At...>) {
    body(Block(call), Parameter<A>::fetch(call->args[At - 1])...);
}

template <class T> constexpr bool in_blocks = false;
template <class... A> constexpr bool in_blocks<std::tuple<Block, A...>> = true;

template <class F> int32_t kernel(const plimsoll_call *call) noexcept {
    using Arguments = typename Signature<F>::Arguments;
    const auto &body = *static_cast<const F *>(call->context);
    auto *arguments = static_cast<Arguments *>(nullptr);
    const auto indices = std::make_index_sequence<std::tuple_size_v<Arguments>>{};
    try {
        if constexpr (changes_itself<F>) {
            F own(body);
            invoke(own, call, arguments, indices);
        } else {
            invoke(body, call, arguments, indices);
        }
        return 0;
    } catch (const std::exception &exception) {
        call->fail(call, exception.what());
    } catch (...) {
        call->fail(call, "an exception that is no std::exception");
    }
    return 1;
}

template <class... A> std::vector<plimsoll_param> describe(std::tuple<A...> *) { return {Parameter<A>::describe()...}; }
template <class... A> std::vector<plimsoll_param> describe(std::tuple<Block, A...> *) { return {Parameter<A>::describe()...}; }

} // namespace detail

/// A tensor or a view of one: a value that may be copied. Its scope must be open where it is used.
class Tensor {
public:
    Tensor() : raw_{} {}
    explicit Tensor(const plimsoll_tensor &raw) : raw_(raw) {}
    const plimsoll_tensor *raw() const { return &raw_; }

    std::vector<size_t> shape() const {
        size_t extents[PLIMSOLL_MAX_DIMS];
        uint32_t ndim = plimsoll_tensor_shape(&raw_, extents);
        return std::vector<size_t>(extents, extents + ndim);
    }
    size_t size() const {
        size_t all = 1;
        for (size_t extent : shape()) all *= extent;
        return all;
    }
    /// Elements from `begin` up to `end` of one dimension.
    Tensor slice(size_t dim, size_t begin, size_t end) const {
        Tensor out;
        check(plimsoll_slice(&raw_, dim, begin, end, &out.raw_));
        return out;
    }
    /// Tile number `index` when every dimension is cut into tiles of these extents.
    Tensor tile(const std::vector<size_t> &index, const std::vector<size_t> &extents) const {
        if (index.size() != extents.size()) throw std::invalid_argument("a tile has as many numbers as extents");
        Tensor out;
        check(plimsoll_tile(&raw_, index.data(), extents.data(), index.size(), &out.raw_));
        return out;
    }
    Tensor reshape(const std::vector<size_t> &shape) const {
        Tensor out;
        check(plimsoll_reshape(&raw_, shape.data(), shape.size(), &out.raw_));
        return out;
    }
    Tensor permute(const std::vector<size_t> &order) const {
        Tensor out;
        check(plimsoll_permute(&raw_, order.data(), order.size(), &out.raw_));
        return out;
    }
    Tensor transpose() const {
        Tensor out;
        check(plimsoll_transpose(&raw_, &out.raw_));
        return out;
    }

private:
    plimsoll_tensor raw_;
};

/// An argument that makes a tensor.
struct OutputArg {
    plimsoll_arg arg;
};

inline plimsoll_arg in(const Tensor &tensor) { return plimsoll_input(tensor.raw()); }
inline plimsoll_arg inout(const Tensor &tensor) { return plimsoll_inout(tensor.raw()); }
inline plimsoll_arg out_existing(const Tensor &tensor) { return plimsoll_output_existing(tensor.raw()); }
template <class T> OutputArg out(const std::vector<size_t> &shape) {
    if (shape.size() > PLIMSOLL_MAX_DIMS) throw std::invalid_argument("a tensor has at most 5 dimensions");
    plimsoll_arg arg = plimsoll_output(element_of<T>(), static_cast<uint32_t>(shape.size()), 0, 0);
    for (size_t dim = 0; dim < shape.size(); ++dim) arg.shape[dim] = shape[dim];
    return {arg};
}
template <class T> plimsoll_arg scalar(T value) {
    static_assert(std::is_arithmetic_v<T>, "a plain value is a number");
    uint64_t bits = 0;
    if constexpr (std::is_floating_point_v<T>) std::memcpy(&bits, &value, sizeof value);
    else bits = static_cast<uint64_t>(static_cast<int64_t>(value));
    return plimsoll_scalar_bits(dtype_of<T>(), bits);
}

/// The same argument, marked: runs that capture marked arguments capture it.
inline plimsoll_arg mark(const plimsoll_arg &arg) { return plimsoll_mark(arg); }
inline OutputArg mark(const OutputArg &arg) { return {plimsoll_mark(arg.arg)}; }

/// A kernel of a device.
struct Kernel {
    plimsoll_kernel raw;
};

namespace detail {
inline const plimsoll_arg &argument(const plimsoll_arg &arg) { return arg; }
inline const plimsoll_arg &argument(const OutputArg &arg) { return arg.arg; }
template <class A> constexpr size_t makes = std::is_same_v<std::decay_t<A>, OutputArg> ? 1 : 0;
} // namespace detail

/// What a program submits through. Valid inside the program only.
class Orchestrator {
public:
    explicit Orchestrator(plimsoll_orchestrator *raw) : raw_(raw) {}
    Orchestrator(const Orchestrator &) = delete;
    plimsoll_orchestrator *raw() const { return raw_; }

    /// Submits a task, and gives a tensor for each out<T>: `auto [c] = o.submit(add, in(a), in(b), out<float>({64}));`
    template <class... A> std::array<Tensor, (0 + ... + detail::makes<A>)> submit(const Kernel &kernel, const A &...args) {
        constexpr size_t makes = (0 + ... + detail::makes<A>);
        const plimsoll_arg list[] = {detail::argument(args)..., plimsoll_arg{}};
        plimsoll_tensor made[makes + 1];
        check(plimsoll_submit(raw_, kernel.raw, list, sizeof...(A), made, makes));
        std::array<Tensor, makes> out;
        for (size_t at = 0; at < makes; ++at) out[at] = Tensor(made[at]);
        return out;
    }
    /// The same with what the options say: blocks, parts, a predicate, tasks to wait for. `task`, if it is not null, is what later
    /// ones can wait for.
    template <class... A>
    std::array<Tensor, (0 + ... + detail::makes<A>)> submit_with(const plimsoll_submit_options &options, const Kernel &kernel,
                                                                 plimsoll_task *task, const A &...args) {
        constexpr size_t makes = (0 + ... + detail::makes<A>);
        const plimsoll_arg list[] = {detail::argument(args)..., plimsoll_arg{}};
        plimsoll_tensor made[makes + 1];
        check(plimsoll_submit_with(raw_, &options, kernel.raw, list, sizeof...(A), made, makes, task));
        std::array<Tensor, makes> out;
        for (size_t at = 0; at < makes; ++at) out[at] = Tensor(made[at]);
        return out;
    }
    /// Enters a copy of the data.
    template <class T> Tensor own(const std::vector<T> &data, const std::vector<size_t> &shape) {
        plimsoll_tensor made;
        check(plimsoll_own(raw_, data.data(), data.size() * sizeof(T), element_of<T>(), shape.data(), shape.size(), &made));
        return Tensor(made);
    }
    /// Enters memory that stays where it is, to be read: it outlives the run.
    template <class T> Tensor borrow(const T *data, const std::vector<size_t> &shape) {
        return enter(const_cast<T *>(data), shape, false);
    }
    /// Enters memory that stays where it is, to be read and written: it outlives the run.
    template <class T> Tensor borrow_mut(T *data, const std::vector<size_t> &shape) { return enter(data, shape, true); }

    /// Waits for the tasks that write the tensor and copies its elements, in row-major order.
    template <class T> std::vector<T> read(const Tensor &tensor) {
        std::vector<T> out(tensor.size());
        check(plimsoll_read(raw_, tensor.raw(), out.data(), out.size() * sizeof(T)));
        return out;
    }
    template <class T> void write(const Tensor &tensor, const std::vector<T> &data) {
        check(plimsoll_write(raw_, tensor.raw(), data.data(), data.size() * sizeof(T)));
    }

private:
    template <class T> Tensor enter(T *data, const std::vector<size_t> &shape, bool writable) {
        size_t all = 1;
        for (size_t extent : shape) all *= extent;
        plimsoll_tensor made;
        check(plimsoll_borrow(raw_, data, all * sizeof(T), element_of<T>(), shape.data(), shape.size(), writable, &made));
        return Tensor(made);
    }

    plimsoll_orchestrator *raw_;
};

/// A scope, from here to the end of the block. If the run has failed by then, run() says why.
class Scope {
public:
    explicit Scope(Orchestrator &o, const char *file = __builtin_FILE(), uint32_t line = __builtin_LINE()) : o_(o.raw()) {
        check(plimsoll_scope_open(o_, file, line));
    }
    Scope(const Scope &) = delete;
    ~Scope() { plimsoll_error_free(plimsoll_scope_close(o_)); }

private:
    plimsoll_orchestrator *o_;
};

namespace detail {
template <class F> struct Program {
    F *body;
    std::exception_ptr thrown;
};

template <class F> plimsoll_error *program(plimsoll_orchestrator *raw, void *context) noexcept {
    auto *program = static_cast<Program<F> *>(context);
    try {
        Orchestrator o(raw);
        (*program->body)(o);
        return nullptr;
    } catch (const Error &error) {
        // The run has failed with it, and says so itself; one that comes from elsewhere is what it fails with.
        return plimsoll_error_new(error.code(), error.explanation().c_str());
    } catch (const std::exception &exception) {
        program->thrown = std::current_exception();
        return plimsoll_error_new(PLIMSOLL_EXPLICIT_FATAL, exception.what());
    } catch (...) {
        program->thrown = std::current_exception();
        return plimsoll_error_new(PLIMSOLL_EXPLICIT_FATAL, "The program threw something that is no std::exception.");
    }
}
} // namespace detail

/// A graph that was built once.
class Graph {
public:
    explicit Graph(plimsoll_graph *raw) : raw_(raw, plimsoll_graph_free) {}
    plimsoll_graph *raw() const { return raw_.get(); }

private:
    std::unique_ptr<plimsoll_graph, void (*)(plimsoll_graph *)> raw_;
};

/// Rings, workers and kernels.
class Device {
public:
    explicit Device(const plimsoll_device_options &options = PLIMSOLL_DEVICE_OPTIONS) : raw_(nullptr, close) {
        plimsoll_device *raw = nullptr;
        check(plimsoll_device_open(&options, &raw));
        raw_.reset(raw);
    }
    /// A device that somebody else closes, such as the one that is lent to a plug-in.
    explicit Device(plimsoll_device *lent) : raw_(lent, [](plimsoll_device *) {}) {}
    plimsoll_device *raw() const { return raw_.get(); }

    /// Registers a lambda or function of In, Out, InOut and plain numbers. Tasks with other arguments are refused. If its first
    /// parameter is a Block, tasks may execute it in blocks or as a part; no two of them touch what one writes. Workers call it at the
    /// same time: every call of a `mutable` lambda has a copy of its own of what it captured.
    template <class F> Kernel kernel(const char *name, F body, const char *core_class = nullptr) {
        using Body = std::decay_t<F>;
        using Arguments = typename detail::Signature<Body>::Arguments;
        auto params = detail::describe(static_cast<Arguments *>(nullptr));
        plimsoll_kernel_options options = PLIMSOLL_KERNEL_OPTIONS;
        options.name = name;
        options.body = detail::kernel<Body>;
        options.context = new Body(std::move(body));
        options.release = [](void *context) { delete static_cast<Body *>(context); };
        options.core_class = core_class;
        options.in_blocks = detail::in_blocks<Arguments>;
        static const plimsoll_param none{};
        options.params = params.empty() ? &none : params.data();
        options.param_count = params.size();
        Kernel out;
        check(plimsoll_kernel_register(raw_.get(), &options, &out.raw));
        return out;
    }

    /// Runs a program, `void(Orchestrator &)`, and returns when every task has completed.
    template <class F> void run(F &&body, plimsoll_run_options options = plimsoll_run_options_init(__builtin_FILE(), __builtin_LINE())) {
        using Body = std::remove_reference_t<F>;
        detail::Program<Body> program{&body, nullptr};
        plimsoll_error *error = plimsoll_run(raw_.get(), &options, detail::program<Body>, &program);
        finish(error, program.thrown);
    }

    /// Builds a graph without running it.
    template <class F> Graph build(F &&body, plimsoll_run_options options = plimsoll_run_options_init(__builtin_FILE(), __builtin_LINE())) {
        using Body = std::remove_reference_t<F>;
        detail::Program<Body> program{&body, nullptr};
        plimsoll_graph *graph = nullptr;
        plimsoll_error *error = plimsoll_graph_build(raw_.get(), &options, detail::program<Body>, &program, &graph);
        finish(error, program.thrown);
        return Graph(graph);
    }

    void launch(const Graph &graph, plimsoll_run_options options = plimsoll_run_options_init(__builtin_FILE(), __builtin_LINE())) {
        check(plimsoll_graph_launch(raw_.get(), graph.raw(), &options));
    }

    plimsoll_report report() const {
        plimsoll_report report;
        check(plimsoll_device_report(raw_.get(), &report));
        return report;
    }

    /// The directory that the last run was recorded into; empty if it was not.
    std::string run_dir() const {
        const char *dir = plimsoll_device_run_dir(raw_.get());
        return dir ? dir : "";
    }

private:
    static void close(plimsoll_device *device) { plimsoll_device_close(device); }

    static void finish(plimsoll_error *error, std::exception_ptr thrown) {
        if (thrown) {
            plimsoll_error_free(error);
            std::rethrow_exception(thrown);
        }
        check(error);
    }

    std::unique_ptr<plimsoll_device, void (*)(plimsoll_device *)> raw_;
};

#ifdef PLIMSOLL_PLUGIN_H
/// What a program's check found: whether the result is right, and in one line how that was found.
struct Verdict {
    bool right;
    std::string detail;
};

namespace detail {
/// Does what may throw, and makes an error of what it throws.
template <class F> plimsoll_error *guarded(F &&body) noexcept {
    try {
        body();
        return nullptr;
    } catch (const Error &error) {
        return plimsoll_error_new(error.code(), error.explanation().c_str());
    } catch (const std::exception &exception) {
        return plimsoll_error_new(PLIMSOLL_EXPLICIT_FATAL, exception.what());
    } catch (...) {
        return plimsoll_error_new(PLIMSOLL_EXPLICIT_FATAL, "The program threw something that is no std::exception.");
    }
}

template <class P> int32_t verify(void *instance, char *detail, size_t room) noexcept {
    Verdict verdict{false, "the check threw an exception"};
    try {
        verdict = static_cast<P *>(instance)->verify();
    } catch (const std::exception &exception) {
        verdict.detail = exception.what();
    } catch (...) {
    }
    size_t length = std::min(verdict.detail.size(), room - 1);
    std::memcpy(detail, verdict.detail.data(), length);
    detail[length] = 0;
    return verdict.right ? 0 : 1;
}
} // namespace detail

/// A program of a plug-in. `P` has `P(Device &, const uint64_t *settings)`, `void orchestrate(Orchestrator &)`, `void reset()` and
/// `Verdict verify()`; what they throw is told.
template <class P, size_t N>
constexpr plimsoll_plugin_program plugin_program(const char *name, const char *about, const plimsoll_setting (&settings)[N],
                                                 const char *file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
    plimsoll_plugin_program program{};
    program.name = name;
    program.about = about;
    program.file = file;
    program.line = line;
    program.settings = settings;
    program.setting_count = N;
    program.build = [](plimsoll_device *raw, const uint64_t *values, void **instance) {
        return detail::guarded([&] {
            Device device(raw);
            *instance = new P(device, values);
        });
    };
    program.orchestrate = [](plimsoll_orchestrator *raw, void *instance) {
        return detail::guarded([&] {
            Orchestrator o(raw);
            static_cast<P *>(instance)->orchestrate(o);
        });
    };
    program.reset = [](void *instance) { return detail::guarded([&] { static_cast<P *>(instance)->reset(); }); };
    program.verify = detail::verify<P>;
    program.release = [](void *instance) { delete static_cast<P *>(instance); };
    return program;
}
#endif

} // namespace plimsoll

#endif
