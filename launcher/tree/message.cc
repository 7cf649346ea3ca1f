#include "launcher/tree/message.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "runtime/base/bytes.h"

namespace weft::launcher::tree {
namespace {

constexpr size_t head_size = 16;
constexpr char magic[4] = {'W', 'e', 'f', 't'};

using placement::Unit;

void write(Writer& out, const placement::Request& request) {
  const auto unit = [&](const std::optional<Unit>& u) { out.u8(u ? uint8_t(*u) + 1 : 0); };
  out.u32(uint32_t(request.programs.size()));
  for (const placement::Program& program : request.programs) {
    out.u32(program.ranks);
    out.u32(program.threads);
  }
  unit(request.map_by);
  out.u32(request.per_unit);
  out.u32(request.cores_each);
  out.u32(request.gpus_each);
  out.u32(uint32_t(request.cpu_lists.size()));
  for (const topo::CpuSet& set : request.cpu_lists) out.text(set.to_string());
  for (bool flag : {request.oversubscribe, request.never_oversubscribe, request.threads_are_cores, request.overload}) out.u8(flag);
  out.u8(uint8_t(request.rank_by));
  unit(request.rank_unit);
  unit(request.bind_to);
  out.text(request.cpu_set.to_string());
  out.u32(uint32_t(request.rankfile.size()));
  for (const placement::RankLine& line : request.rankfile) {
    out.u32(line.rank);
    for (const std::string* text : {&line.host, &line.slots, &line.source}) out.text(*text);
  }
}

placement::Request read_request(Reader& in) {
  const auto unit = [&]() -> std::optional<Unit> {
    const uint8_t value = in.u8();
    if (value > uint8_t(Unit::hwthread) + 1) in.fail();
    if (!value || value > uint8_t(Unit::hwthread) + 1) return {};
    return Unit(value - 1);
  };
  placement::Request request;
  request.programs.resize(in.length(8));
  for (placement::Program& program : request.programs) {
    program.ranks = in.u32();
    program.threads = in.u32();
  }
  request.map_by = unit();
  request.per_unit = in.u32();
  request.cores_each = in.u32();
  request.gpus_each = in.u32();
  request.cpu_lists.resize(in.length(4));
  for (topo::CpuSet& list : request.cpu_lists) {
    if (auto set = topo::CpuSet::parse(in.text()))
      list = std::move(*set);
    else
      in.fail();
  }
  for (bool* flag : {&request.oversubscribe, &request.never_oversubscribe, &request.threads_are_cores, &request.overload})
    *flag = in.flag();
  const uint8_t rank_by = in.u8();
  if (rank_by > uint8_t(placement::RankBy::span)) in.fail();
  request.rank_by = placement::RankBy(rank_by);
  request.rank_unit = unit().value_or(Unit::slot);
  request.bind_to = unit();
  if (const std::string cpus = in.text(); !cpus.empty()) {
    if (auto set = topo::CpuSet::parse(cpus))
      request.cpu_set = std::move(*set);
    else
      in.fail();
  }
  request.rankfile.resize(in.length(16));
  for (placement::RankLine& line : request.rankfile) {
    line.rank = in.u32();
    for (std::string* text : {&line.host, &line.slots, &line.source}) *text = in.text();
  }
  return request;
}

void write(Writer& out, const event::Started& e) { out.u32(e.rank), out.u32(uint32_t(e.pid)); }
void write(Writer& out, const event::LaunchFailed& e) { out.u32(e.rank), out.text(e.why), out.u32(uint32_t(e.code)); }
void write(Writer& out, const event::Broken& e) { out.text(e.why); }
void write(Writer& out, const event::Connected& e) { out.u32(e.rank); }
void write(Writer& out, const event::Finalized& e) { out.u32(e.rank); }
void write(Writer& out, const event::Aborted& e) { out.u32(e.rank), out.u32(uint32_t(e.code)), out.text(e.why); }
void write(Writer& out, const event::Exited& e) { out.u32(e.rank), out.u32(uint32_t(e.code)), out.u32(uint32_t(e.signal)), out.u8(e.core); }

void write(Writer& out, const event::Signalled& e) { out.u32(uint32_t(e.signal)), out.text(e.why); }

Event read_event(uint8_t which, Reader& in) {
  const auto integer = [&] { return int(in.u32()); };
  switch (which) {
    case 's': return event::Started{in.u32(), integer()};
    case 'l': return event::LaunchFailed{in.u32(), in.text(), integer()};
    case 'b': return event::Broken{in.text()};
    case 'c': return event::Connected{in.u32()};
    case 'f': return event::Finalized{in.u32()};
    case 'a': {
      event::Aborted e{in.u32(), integer(), {}};
      e.why = in.text();
      return e;
    }
    case 'g': {  // somebody wants the job to end, there as well as here
      const int signal = integer();
      if (signal != SIGTERM) in.fail();
      return event::Signalled{signal, in.text()};
    }
    case 'x': return event::Exited{in.u32(), integer(), integer(), in.flag()};
  }
  in.fail();
  return event::GraceOver{};
}

/// The letter of an event that a daemon may report; 0: it is mpirun's own affair.
uint8_t letter(const Event& e) {
  constexpr uint8_t letters[] = {0, 0, 's', 'l', 'b', 'c', 'f', 'a', 'x', 'g'};
  return e.index() < sizeof letters ? letters[e.index()] : 0;
}

}  // namespace

void write_app(Writer& out, const App& app) {
  out.texts(app.command);
  out.u32(app.ranks);
  out.text(app.folder);
  out.u8(uint8_t(app.inherit));
  out.texts(app.listed);
  out.u32(uint32_t(app.variables.size()));
  for (const auto& [name, value] : app.variables) {
    out.text(name);
    out.text(value);
  }
  out.texts(app.hosts);
  out.text(app.path);
  out.texts(app.sets);
}

App read_app(Reader& in) {
  App app;
  app.command = in.texts();
  app.ranks = in.u32();
  app.folder = in.text();
  const uint8_t inherit = in.u8();
  if (inherit > uint8_t(Inherit::listed)) in.fail();
  app.inherit = Inherit(inherit);
  app.listed = in.texts();
  app.variables.resize(in.length(8));
  for (auto& [name, value] : app.variables) {
    name = in.text();
    value = in.text();
  }
  app.hosts = in.texts();
  app.path = in.text();
  app.sets = in.texts();
  if (app.command.empty()) in.fail();
  return app;
}

std::string frame(const Message& message) {
  Writer out;
  out.u32(uint32_t(message.body.size()));
  out.number(format_version, 2);
  out.u8(uint8_t(message.kind));
  out.u8(0);
  out.u32(message.from);
  out.u32(message.to);
  return out.take() + message.body;
}

Taken take_frame(std::string_view bytes, size_t& at, Message& message) {
  const std::string_view rest = bytes.substr(at);
  if (rest.size() < head_size) return Taken::more;
  Reader head(rest.substr(0, head_size));
  const uint32_t size = head.u32();
  const uint64_t version = head.number(2);
  const uint8_t kind = head.u8(), zero = head.u8();
  if (size > body_limit || version != format_version || !kind || kind > uint8_t(Kind::last) || zero) return Taken::damaged;
  if (rest.size() - head_size < size) return Taken::more;
  message.kind = Kind(kind);
  message.from = head.u32();
  message.to = head.u32();
  message.body = rest.substr(head_size, size);
  at += head_size + size;
  return Taken::message;
}

std::string encode(const Plan& plan) {
  Writer out;
  out.text(plan.job);
  out.u32(plan.launcher);
  out.text(plan.options.command_line);
  out.u32(plan.fan_out);
  out.u8(plan.ssh);
  out.text(plan.agent);
  out.text(plan.program);
  out.texts(plan.hosts);
  out.numbers(plan.host_of);
  out.texts(plan.environment);
  out.text(plan.master);
  out.u8(plan.options.output.tag);
  out.u8(plan.options.output.timestamp);
  out.u8(plan.options.output.copy);
  out.text(plan.options.output.folder);
  out.text(plan.options.output.out_pattern);
  out.text(plan.options.output.error_pattern);
  out.u8(plan.options.verbose);
  out.u8(plan.options.torch);
  out.u8(uint8_t(plan.options.input));
  out.u32(plan.options.input_rank);
  out.u32(uint32_t(plan.options.apps.size()));
  for (const App& app : plan.options.apps) write_app(out, app);
  write(out, plan.policies);
  return out.take();
}

std::optional<Plan> decode_plan(std::string_view body) {
  Reader in(body);
  Plan plan;
  plan.job = in.text();
  plan.launcher = in.u32();
  plan.options.command_line = in.text();
  plan.fan_out = in.u32();
  plan.ssh = in.flag();
  plan.agent = in.text();
  plan.program = in.text();
  plan.hosts = in.texts();
  plan.host_of = in.numbers();
  plan.environment = in.texts();
  plan.master = in.text();
  plan.options.output.tag = in.flag();
  plan.options.output.timestamp = in.flag();
  plan.options.output.copy = in.flag();
  plan.options.output.folder = in.text();
  plan.options.output.out_pattern = in.text();
  plan.options.output.error_pattern = in.text();
  plan.options.verbose = in.flag();
  plan.options.torch = in.flag();
  const uint8_t input = in.u8();
  if (input > uint8_t(InputTo::none)) in.fail();
  plan.options.input = InputTo(input);
  plan.options.input_rank = in.u32();
  plan.options.apps.resize(in.length(29));
  for (App& app : plan.options.apps) app = read_app(in);
  plan.policies = read_request(in);
  if (plan.policies.programs.size() != plan.options.apps.size()) in.fail();
  uint64_t ranks = 0;
  for (const App& app : plan.options.apps) ranks += app.ranks;
  if (!plan.fan_out || ranks != plan.host_of.size()) in.fail();
  if (plan.options.input_rank >= ranks) in.fail();
  for (uint32_t host : plan.host_of)
    if (host >= plan.hosts.size()) in.fail();
  // The name becomes part of file names.
  if (plan.job.compare(0, 5, "weft-") != 0 || plan.job.find_first_of("/.") != std::string::npos) in.fail();
  return whole(in, std::move(plan));
}

std::string encode(const Launch& launch) {
  Writer out;
  out.u8(launch.held);
  out.number(launch.master_port, 2);
  return out.take();
}
std::optional<Launch> decode_launch(std::string_view body) {
  Reader in(body);
  Launch launch;
  launch.held = in.flag();
  launch.master_port = uint16_t(in.number(2));
  return whole(in, launch);
}

std::string encode(const Lost& lost) {
  Writer out;
  out.u32(lost.node);
  out.text(lost.why);
  return out.take();
}
std::optional<Lost> decode_lost(std::string_view body) {
  Reader in(body);
  Lost lost;
  lost.node = in.u32();
  lost.why = in.text();
  return whole(in, std::move(lost));
}

std::string encode(const Fence& fence) {
  Writer out;
  out.numbers(fence.members);
  out.u8(fence.good);
  out.text(fence.data);
  return out.take();
}
std::optional<Fence> decode_fence(std::string_view body) {
  Reader in(body);
  Fence fence;
  fence.members = in.numbers();
  fence.good = in.flag();
  fence.data = in.text();
  return whole(in, std::move(fence));
}

std::string encode(const Modex& modex) {
  Writer out;
  out.u64(modex.number);
  out.u32(modex.rank);
  out.u32(uint32_t(modex.status));
  out.text(modex.data);
  return out.take();
}
std::optional<Modex> decode_modex(std::string_view body) {
  Reader in(body);
  Modex modex;
  modex.number = in.u64();
  modex.rank = in.u32();
  modex.status = int32_t(in.u32());
  modex.data = in.text();
  return whole(in, std::move(modex));
}

std::string encode(const Ask& ask) {
  Writer out;
  out.u64(ask.number);
  out.u8(ask.what);
  out.text(ask.body);
  return out.take();
}
std::optional<Ask> decode_ask(std::string_view body) {
  Reader in(body);
  Ask ask;
  ask.number = in.u64();
  ask.what = in.u8();
  ask.body = in.text();
  return whole(in, std::move(ask));
}

std::string encode(const Answer& answer) {
  Writer out;
  out.u64(answer.number);
  out.u32(uint32_t(answer.status));
  out.text(answer.body);
  return out.take();
}
std::optional<Answer> decode_answer(std::string_view body) {
  Reader in(body);
  Answer answer;
  answer.number = in.u64();
  answer.status = int32_t(in.u32());
  answer.body = in.text();
  return whole(in, std::move(answer));
}

std::string encode(const Spread& spread) {
  Writer out;
  out.u32(spread.origin);
  out.text(spread.body);
  return out.take();
}
std::optional<Spread> decode_spread(std::string_view body) {
  Reader in(body);
  Spread spread;
  spread.origin = in.u32();
  spread.body = in.text();
  return whole(in, std::move(spread));
}

std::string encode(const Event& event) {
  Writer out;
  out.u8(letter(event));
  std::visit(
      [&](const auto& e) {
        if constexpr (requires { write(out, e); }) write(out, e);
      },
      event);
  return out.take();
}
std::optional<Event> decode_event(std::string_view body) {
  Reader in(body);
  const uint8_t which = in.u8();
  Event event = read_event(which, in);
  return whole(in, std::move(event));
}

/// Ranks in the same functions share the bytes of the first.
std::string encode(const HostStacks& found, size_t limit) {
  Writer out;
  out.text(found.tool);
  out.u32(uint32_t(found.ranks.size()));
  size_t used = 0;
  std::vector<uint32_t> told;  // whose threads have been written
  for (uint32_t i = 0; i < found.ranks.size(); i++) {
    const RankStacks& rank = found.ranks[i];
    const auto same = std::find_if(told.begin(), told.end(), [&](uint32_t t) { return same_place(found.ranks[t], rank); });
    size_t size = 0;
    for (const Frames& frames : rank.threads)
      for (const std::string& frame : frames) size += frame.size() + 4;
    const bool fits = same != told.end() || used + size <= limit;
    out.u32(rank.rank);
    out.u32(uint32_t(rank.pid));
    out.text(rank.program);
    out.text(fits ? rank.instead : "its stacks are left out, as those of the others on this host take too much room already");
    out.u32(same != told.end() ? *same : i);
    if (same != told.end()) continue;
    out.u32(fits ? uint32_t(rank.threads.size()) : 0);
    if (!fits) continue;
    for (const Frames& frames : rank.threads) out.texts(frames);
    used += size;
    told.push_back(i);
  }
  return out.take();
}
std::optional<HostStacks> decode_stacks(std::string_view body) {
  constexpr size_t most_copied = 64u << 20;  // by ranks that share their stacks
  Reader in(body);
  HostStacks found;
  found.tool = in.text();
  found.ranks.resize(in.length(20));
  size_t copied = 0;
  for (uint32_t i = 0; i < found.ranks.size(); i++) {
    RankStacks& rank = found.ranks[i];
    rank.rank = in.u32();
    rank.pid = pid_t(in.u32());
    rank.program = in.text();
    rank.instead = in.text();
    const uint32_t like = in.u32();
    if (like < i) {
      for (const Frames& frames : found.ranks[like].threads)
        for (const std::string& frame : frames) copied += frame.size() + sizeof frame;
      if (copied > most_copied) return {};
      rank.threads = found.ranks[like].threads;
    } else if (like == i) {
      rank.threads.resize(in.length(4));
      for (Frames& frames : rank.threads) frames = in.texts();
    } else {
      in.fail();
    }
  }
  return whole(in, std::move(found));
}

std::string encode(uint32_t number) {
  Writer out;
  out.u32(number);
  return out.take();
}
std::optional<uint32_t> decode_number(std::string_view body) {
  Reader in(body);
  const uint32_t number = in.u32();
  return whole(in, number);
}

std::string encode(const Summons& summons) {
  Writer out;
  out.text(summons.version);
  out.u32(summons.node);
  out.text(summons.secret);
  out.texts(summons.parents);
  out.texts(summons.names);
  const std::string body = out.take();
  Writer head(std::string(magic, sizeof magic));
  head.u32(uint32_t(body.size()));
  head.u64(0);
  return head.take() + body;
}

size_t summons_size(std::string_view head) {
  if (head.size() < summons_head || memcmp(head.data(), magic, sizeof magic) != 0) return 0;
  Reader in(head.substr(sizeof magic));
  const uint32_t size = in.u32();
  return size <= (16u << 20) ? summons_head + size : 0;
}

std::optional<Summons> decode_summons(std::string_view text) {
  if (text.size() < summons_head || summons_size(text) != text.size()) return {};
  Reader in(text.substr(summons_head));
  Summons summons;
  summons.version = in.text();
  summons.node = in.u32();
  summons.secret = in.text();
  summons.parents = in.texts();
  summons.names = in.texts();
  return whole(in, std::move(summons));
}

}  // namespace weft::launcher::tree
