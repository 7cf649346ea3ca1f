// What daemons of a job tell each other, and what their PMIx servers ask.
#include <csignal>

#include "launcher/service.h"
#include "launcher/stacks.h"
#include "launcher/tree/exchange.h"
#include "launcher/tree/message.h"
#include "test/fuzz/fuzz.h"

namespace weft::fuzz {
namespace {

using namespace weft::launcher;
using namespace weft::launcher::tree;

/// A record: what is read and written again must stay what it is.
template <class Decode>
Target record(const char* name, std::vector<std::string> seeds, Decode decode) {
  return {std::string("launcher/") + name, std::move(seeds), [decode](std::string_view in) {
            const auto record = decode(in);
            if (!record) return;
            const std::string written = encode(*record);
            const auto again = decode(written);
            need(again && encode(*again) == written, "a record is not what it was when encoded again");
          }};
}

App an_app() {
  App app;
  app.command = {"./x", "y"};
  app.folder = "/tmp";
  app.variables = {{"K", "V"}};
  app.inherit = Inherit::listed;
  app.listed = {"HOME"};
  app.ranks = 2;
  return app;
}

Plan a_plan() {
  Plan plan;
  plan.job = "weft-12-ab";
  plan.fan_out = 3;
  plan.agent = "ssh -v";
  plan.program = "/opt/weft/bin/mpirun";
  plan.hosts = {"a", "b"};
  plan.host_of = {0, 1};
  plan.environment = {"A=1", "B="};
  plan.options.apps = {an_app()};
  plan.policies.programs.resize(1);
  plan.policies.bind_to = placement::Unit::core;
  plan.policies.cpu_set = *topo::CpuSet::parse("0-3,8");
  plan.policies.cpu_lists = {*topo::CpuSet::parse("1,3")};
  plan.policies.rankfile = {{1, "b", "0-1", "line 3"}};
  return plan;
}

std::vector<std::string> events() {
  return {encode(Event(event::Started{1, 2})),
          encode(Event(event::LaunchFailed{1, "why", 2})),
          encode(Event(event::Broken{"why"})),
          encode(Event(event::Connected{1})),
          encode(Event(event::Aborted{1, 2, "why"})),
          encode(Event(event::Exited{1, 0, 11, true})),
          encode(Event(event::Signalled{SIGTERM, "who"}))};
}

std::string stacks() { return encode(HostStacks{"gdb", {{1, 2, "p", {{"f ()", "g ()"}}, ""}, {2, 3, "p", {{"f ()"}}, ""}}}, 4000); }

/// Frames one after the other, as a link takes them out of what has come.
Target frames() {
  const std::string two = frame({Kind::fence, 1, 0, encode(Fence{{1, 2}, true, "data"})}) + frame({Kind::up, 2, 0, {}});
  return {"launcher/frames", {two, frame({Kind::plan, 0, 1, encode(a_plan())})}, [](std::string_view in) {
            size_t at = 0;
            Message message;
            while (take_frame(in, at, message) == Taken::message) {
              need(at <= in.size(), "a frame beyond the end");
              need(frame(message).size() <= in.size(), "a frame larger than what has come");
            }
          }};
}

/// A daemon's exchange with neighbours that say whatever they like; what it answers goes nowhere.
Target exchange() {
  auto said = [](Kind kind, uint8_t from, std::string body) {
    return std::string(1, char(kind)) + char(from) + char(body.size()) + char(body.size() >> 8) + body;
  };
  const std::string fence = encode(Fence{{0, 1, 2, 3}, true, "data"});
  std::vector<std::string> seeds{
      said(Kind::fence, 1, fence) + said(Kind::fence, 2, fence) + said(Kind::fence_done, 0, fence),
      said(Kind::modex, 1, encode(Modex{1, 2, 0, "d"})) + said(Kind::modex_reply, 0, encode(Modex{1, 2, 0, "d"})),
      said(Kind::ask, 2, encode(Ask{1, 2, "q"})) + said(Kind::answer, 0, encode(Answer{1, 0, "a"})),
      said(Kind::notice, 0, encode(Spread{1, "notice"}))};
  return {"launcher/exchange", seeds,
          [](std::string_view in) {
            Script script(in);
            const Layout layout({"a", "b", "c", "d"}, {0, 1, 2, 3}, uint32_t(in.size() % 4));
            Exchange exchange(layout, {4, 2}, [](Kind, uint32_t, std::string) {});
            exchange.serve([](uint32_t, Service, const std::string&, Services::Done done) { done(0, "answer"); });
            exchange.fence({}, "mine", [](bool, std::string) {});
            exchange.modex(2, [](int32_t, std::string) {});
            exchange.ask(Service::lookup, "body", [](int32_t, std::string) {});
            for (int n = 0; n < 64 && !script.over(); ++n) {
              const auto kind = Kind(script.number(1));
              const auto from = uint32_t(script.number(1) % 4);
              const size_t length = script.number(2);
              exchange.deliver({kind, from, layout.self, std::string(script.piece(length))});
            }
          },
          2};
}

void add_services(Targets& all) {
  SpawnOrder order;
  order.space = {};
  order.host_of = {0, 1};
  all.push_back(record("publish", {encode(Publish{{"s", 1}, Audience::host, Lasting::process, {{"k", "v"}, {"l", ""}}})}, decode_publish));
  all.push_back(record("lookup", {encode(Lookup{{"s", 1}, {"k", "l"}, true, 7})}, decode_lookup));
  all.push_back(record("found", {encode(Found{{{"s", 2}, "k", "v"}})}, decode_found));
  all.push_back(record("unpublish", {encode(Unpublish{{"s", 1}, {"k"}})}, decode_unpublish));
  all.push_back(record("gather", {encode(Gather{Gather::What::disconnect, "g", {{"s", all_ranks}}, "data"})}, decode_gather));
  all.push_back(record("gathered", {encode(Gathered{9, "data"})}, decode_gathered));
  all.push_back(record("notice", {encode(Notice{-44, {"s", 1}, 3, "infos"})}, decode_notice));
  all.push_back(record("spawn-wish", {encode(SpawnWish{{"s", 1}, "node", {an_app()}})}, decode_spawn_wish));
  all.push_back(record("spawned", {encode(Spawned{"s.1", "why"})}, decode_spawned));
  all.push_back(record("spawn-order", {encode(order)}, decode_spawn_order));
}

}  // namespace

void add_launcher(Targets& all) {
  all.push_back(frames());
  all.push_back(exchange());
  all.push_back(record("plan", {encode(a_plan())}, [](std::string_view in) {
    auto plan = decode_plan(in);
    if (plan)
      for (uint32_t host : plan->host_of) need(host < plan->hosts.size(), "a rank on a host that is not there");
    return plan;
  }));
  all.push_back(record("event", events(), decode_event));
  all.push_back(record("fence", {encode(Fence{{1, 2}, true, "data"})}, decode_fence));
  all.push_back(record("modex", {encode(Modex{1, 2, -3, "d"})}, decode_modex));
  all.push_back(record("ask", {encode(Ask{1, 2, "question"})}, decode_ask));
  all.push_back(record("answer", {encode(Answer{1, -3, "answer"})}, decode_answer));
  all.push_back(record("spread", {encode(Spread{1, "notice"})}, decode_spread));
  all.push_back(record("launch", {encode(Launch{true, 4711})}, decode_launch));
  all.push_back(record("lost", {encode(Lost{1, "x"})}, decode_lost));
  all.push_back(record("number", {encode(uint32_t{7})}, decode_number));
  all.push_back(record("summons", {encode(Summons{"1.0", 7, "secret", {"10.0.0.1:5"}, {"x"}})}, [](std::string_view in) {
    (void)summons_size(in.substr(0, summons_head));
    return decode_summons(in);
  }));
  all.push_back({"launcher/stacks", {stacks()}, [](std::string_view in) {
                   if (const auto found = decode_stacks(in)) {
                     (void)encode(*found, 4000);
                     (void)report_stacks(found->ranks);
                   }
                 }});
  add_services(all);
}

}  // namespace weft::fuzz
