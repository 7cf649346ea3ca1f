// What mpirun answers for the whole job: published names against a simple model, groups over hosts, records against hostile bytes.
#include <pmix_common.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "launcher/central.h"

using namespace weft::launcher;

namespace {

using Outcome = NameService::Outcome;

NameService::Asker rank_on(uint32_t rank, uint32_t host, const std::string& space = "job") { return {{space, rank}, host}; }

/// Looks one name up at once; the value, or nothing.
std::optional<std::string> see(NameService& names, const NameService::Asker& asker, const std::string& name) {
  std::optional<std::string> value;
  names.lookup({asker, {name}, false, 0, [&](Outcome, const Found& found) {
                  if (!found.empty()) value = found[0].value;
                }});
  return value;
}

}  // namespace

TEST_CASE("published names are seen by whom they are meant for", "[services]") {
  NameService names;
  const auto owner = rank_on(1, 1);
  for (auto [name, audience] :
       {std::pair{"all", Audience::all}, {"space", Audience::space}, {"host", Audience::host}, {"self", Audience::self}})
    CHECK(names.publish(owner, {{name, "v"}}, audience, Lasting::job) == Outcome::good);
  const auto seen_by = [&](const NameService::Asker& asker) {
    std::string seen;
    for (const char* name : {"all", "space", "host", "self"})
      if (see(names, asker, name)) seen += name[0];
    return seen + (see(names, asker, "none") ? "!" : "");
  };
  CHECK(seen_by(owner) == "ashs");
  CHECK(seen_by(rank_on(2, 1)) == "ash");
  CHECK(seen_by(rank_on(2, 2)) == "as");
  CHECK(seen_by(rank_on(1, 1, "job.1")) == "ah");
  CHECK(seen_by(rank_on(1, 2, "job.1")) == "a");
  CHECK(names.publish(rank_on(3, 3), {{"self", "another"}}, Audience::self, Lasting::job) == Outcome::good);
  CHECK(names.publish(rank_on(3, 3), {{"x", ""}, {"all", "another"}}, Audience::self, Lasting::job) == Outcome::duplicate);
  CHECK_FALSE(see(names, rank_on(3, 3), "x"));  // all or nothing
  CHECK(names.publish(rank_on(3, 3), {{"y", ""}, {"y", ""}}, Audience::self, Lasting::job) == Outcome::duplicate);
}

TEST_CASE("published names go when they should", "[services]") {
  NameService names;
  const auto owner = rank_on(0, 0), other = rank_on(1, 0);
  for (auto [name, lasting] :
       {std::pair{"job", Lasting::job}, {"once", Lasting::first_read}, {"process", Lasting::process}, {"space", Lasting::space}})
    CHECK(names.publish(owner, {{name, "v"}}, Audience::all, lasting) == Outcome::good);
  CHECK(see(names, other, "once"));
  CHECK_FALSE(see(names, other, "once"));
  names.gone(other.who, false);
  CHECK(see(names, other, "process"));
  names.gone(owner.who, false);
  CHECK_FALSE(see(names, other, "process"));
  CHECK(see(names, other, "space"));
  names.gone(other.who, true);
  CHECK_FALSE(see(names, other, "space"));
  names.unpublish(other.who, {});
  CHECK(see(names, other, "job"));
  names.unpublish(owner.who, {"nothing"});
  CHECK(see(names, other, "job"));
  names.unpublish(owner.who, {"job"});
  CHECK_FALSE(see(names, other, "job"));
}

TEST_CASE("lookups wait until all is there, or their time is over", "[services]") {
  NameService names({1000, 10, 3});
  std::vector<std::pair<Outcome, size_t>> answers;
  const auto wish = [&](uint32_t rank, std::vector<std::string> list, uint64_t give_up) {
    names.lookup({rank_on(rank, 0), std::move(list), true, give_up,
                  [&](Outcome outcome, const Found& found) { answers.emplace_back(outcome, found.size()); }});
  };
  CHECK(names.next_tick_ns() == 0);
  wish(0, {"a", "b"}, 0);
  wish(1, {"a"}, 50);
  wish(2, {"a", "c", "c"}, 40);
  CHECK(answers.empty());
  wish(3, {"a"}, 0);  // one too many waits
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].first == Outcome::full);
  CHECK(names.next_tick_ns() == 40);
  names.publish(rank_on(9, 0), {{"a", "1"}}, Audience::all, Lasting::job);
  REQUIRE(answers.size() == 2);
  CHECK(answers[1] == std::pair{Outcome::good, size_t{1}});
  names.tick(39);
  CHECK(answers.size() == 2);
  names.tick(40);
  REQUIRE(answers.size() == 3);
  CHECK(answers[2] == std::pair{Outcome::late, size_t{1}});
  CHECK(names.next_tick_ns() == 0);
  names.gone(rank_on(0, 0).who, false);
  names.publish(rank_on(9, 0), {{"b", "1"}}, Audience::all, Lasting::job);
  CHECK(answers.size() == 3);  // nobody is there to be answered
  CHECK(names.publish(rank_on(9, 0), {{"large", std::string(1000, 'x')}}, Audience::all, Lasting::job) == Outcome::full);
  NameService::Items many;
  for (int i = 0; i < 9; i++) many.emplace_back(std::to_string(i), "");
  CHECK(names.publish(rank_on(9, 0), many, Audience::all, Lasting::job) == Outcome::full);
  names.unpublish(rank_on(9, 0).who, {});
  CHECK(names.publish(rank_on(9, 0), many, Audience::all, Lasting::job) == Outcome::good);
  CHECK(names.publish(rank_on(9, 0), {{"large", std::string(980, 'x')}}, Audience::all, Lasting::job) == Outcome::good);
}

TEST_CASE("published names agree with a list of them", "[services]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  struct Entry {
    NameService::Asker owner;
    std::string name, value;
    Audience audience;
  };
  for (int round = 0; round < 50; round++) {
    NameService names;
    std::vector<Entry> model;
    const auto visible = [&](const NameService::Asker& asker, const std::string& name) {
      return std::find_if(model.begin(), model.end(), [&](const Entry& e) {
        return e.name == name && (e.audience == Audience::all || (e.audience == Audience::space && e.owner.who.space == asker.who.space) ||
                                  (e.audience == Audience::host && e.owner.host == asker.host) || e.owner.who == asker.who);
      });
    };
    for (int step = 0; step < 200; step++) {
      const auto who = rank_on(random() % 4, 0, random() % 2 ? "a" : "b");
      const NameService::Asker asker{who.who, who.who.rank / 2};
      const std::string name(1, char('a' + random() % 5));
      switch (random() % 4) {
        case 0: {
          const auto audience = Audience(random() % 4);
          const bool there = visible(asker, name) != model.end();
          const std::string value = std::to_string(step);
          CHECK(names.publish(asker, {{name, value}}, audience, Lasting::job) == (there ? Outcome::duplicate : Outcome::good));
          if (!there) model.push_back({asker, name, value, audience});
          break;
        }
        case 1:
          names.unpublish(asker.who, {name});
          std::erase_if(model, [&](const Entry& e) { return e.owner.who == asker.who && e.name == name; });
          break;
        default: {
          const auto found = visible(asker, name);
          CHECK(see(names, asker, name).value_or("") == (found == model.end() ? "" : found->value));
        }
      }
    }
  }
}

namespace {

/// A job of two namespaces on three hosts.
struct TwoSpaces {
  Roster roster;
  Layout layout{{"h0", "h1", "h2"}, {0, 0, 1, 2}, 0};
  std::vector<std::pair<uint32_t, std::string>> notices;
  std::vector<SpawnWish> wishes;
  Central central{roster,
                  layout,
                  {[this](uint32_t origin, const std::string& notice) { notices.emplace_back(origin, notice); },
                   [this](SpawnWish wish, const Services::Done& done) {
                     wishes.push_back(std::move(wish));
                     done(PMIX_SUCCESS, encode(Spawned{"job.1", ""}));
                   }}};
  struct Answer {
    int32_t status;
    std::string body;
  };
  std::vector<Answer> answers;

  TwoSpaces() {
    App app;
    app.command = {"x"};
    app.ranks = 4;
    roster.add({"job", 0, 0, 4, {app}});
    app.ranks = 2;
    roster.add({"job.1", 0, 0, 2, {app}, {"job", 0}});
    layout.extend({1, 2});
  }
  void ask(uint32_t host, Service what, const std::string& body) {
    central.ask(host, what, body, [this](int32_t status, std::string text) { answers.push_back({status, std::move(text)}); });
  }
  void gather(uint32_t host, const std::string& id, std::vector<Proc> members, const std::string& data = {}) {
    ask(host, Service::gather, encode(Gather{Gather::What::group, id, std::move(members), data}));
  }
};

}  // namespace

TEST_CASE("ranks of spawned namespaces are numbered on", "[services]") {
  TwoSpaces job;
  CHECK(job.roster.ranks() == 6);
  CHECK(job.roster.proc(5) == Proc{"job.1", 1});
  CHECK(job.roster.proc(3) == Proc{"job", 3});
  CHECK(job.roster.rank({"job.1", 1}) == 5u);
  CHECK_FALSE(job.roster.rank({"job.1", 2}));
  CHECK_FALSE(job.roster.rank({"job.2", 0}));
  CHECK(job.roster.numbers({{"job.1", all_ranks}, {"job", 2}, {"job.1", 0}}) == std::vector<uint32_t>{2, 4, 5});
  CHECK_FALSE(job.roster.numbers({{"job", 4}}));
  CHECK(label(job.roster.of(5), 1) == "1.1");
  CHECK(label(job.roster.of(1), 1) == "1");
  CHECK(job.layout.local_rank(4) == 0);
  CHECK(job.layout.part(4, 2).by_host() == decltype(job.layout.by_host()){{1, {0}}, {2, {1}}});
}

TEST_CASE("groups are complete when all hosts of their members have come", "[services]") {
  TwoSpaces job;
  job.gather(1, "g", {{"job", 2}, {"job.1", all_ranks}}, "one");
  CHECK(job.answers.empty());
  job.gather(2, "other", {{"job.1", 1}}, "alone");
  REQUIRE(job.answers.size() == 1);
  CHECK(decode_gathered(job.answers[0].body)->data.empty());
  job.gather(2, "g", {{"job.1", 0}, {"job.1", 1}, {"job", 2}}, "two");  // the same members in other words
  REQUIRE(job.answers.size() == 3);
  const auto first = decode_gathered(job.answers[1].body), second = decode_gathered(job.answers[2].body);
  CHECK(first->data == "onetwo");
  CHECK(first->context == second->context);
  CHECK(first->context != decode_gathered(job.answers[0].body)->context);
  job.gather(0, "g", {{"job.1", 1}});  // none of its ranks is in there
  job.gather(0, "g", {{"job", 7}});
  job.gather(0, "g", {});
  job.gather(1, "twice", {{"job", all_ranks}});
  job.gather(1, "twice", {{"job", all_ranks}});
  REQUIRE(job.answers.size() == 7);
  for (size_t i = 3; i < 7; i++) CHECK(job.answers[i].status != PMIX_SUCCESS);
}

TEST_CASE("groups fail when members have ended without coming", "[services]") {
  TwoSpaces job;
  job.gather(0, "g", {{"job", all_ranks}});  // ranks 0 and 1 on host 0, 2 on host 1, 3 on host 2
  job.gather(1, "h", {{"job", 0}, {"job", 1}, {"job", 2}});
  job.central.gone(4, false);  // no member
  job.central.gone(1, false);  // rank 0 may still come to "h"
  CHECK(job.answers.empty());
  job.central.gone(3, false);
  REQUIRE(job.answers.size() == 1);  // "g"
  job.central.gone(0, false);
  REQUIRE(job.answers.size() == 2);  // "h"
  job.gather(1, "i", {{"job", 2}, {"job", 3}});
  REQUIRE(job.answers.size() == 3);  // too late
  for (const auto& answer : job.answers) CHECK(answer.status == PMIX_ERR_PROC_TERM_WO_SYNC);
  job.gather(1, "j", {{"job", 2}, {"job.1", all_ranks}});
  job.gather(2, "j", {{"job", 2}, {"job.1", all_ranks}});
  REQUIRE(job.answers.size() == 5);
  for (size_t i = 3; i < 5; i++) CHECK(job.answers[i].status == PMIX_SUCCESS);
}

TEST_CASE("a host speaks for its own ranks only", "[services]") {
  TwoSpaces job;
  SpawnWish wish{{"job", 0}, "", job.roster.spaces()[0].apps};
  const std::pair<Service, std::string> questions[] = {{Service::publish, encode(Publish{{"job", 0}, {}, {}, {{"k", "v"}}})},
                                                       {Service::lookup, encode(Lookup{{"job", 0}, {"k"}, false, 0})},
                                                       {Service::unpublish, encode(Unpublish{{"job", 0}, {}})},
                                                       {Service::notify, encode(Notice{-1, {"job", 0}, 4, "i"})},
                                                       {Service::spawn, encode(wish)}};
  for (const auto& [what, body] : questions) job.ask(1, what, body);
  for (const auto& answer : job.answers) CHECK(answer.status == PMIX_ERR_BAD_PARAM);
  CHECK(job.notices.empty());
  CHECK(job.wishes.empty());
  job.answers.clear();
  for (const auto& [what, body] : questions) job.ask(0, what, body);
  REQUIRE(job.answers.size() == 5);
  for (const auto& answer : job.answers) CHECK(answer.status == PMIX_SUCCESS);
  CHECK(decode_found(job.answers[1].body)->at(0).value == "v");
  CHECK(job.notices.size() == 1);
  CHECK(job.wishes.size() == 1);
  for (const auto& [what, body] : questions) job.ask(0, what, body.substr(1));
  CHECK(job.answers.back().status == PMIX_ERR_BAD_PARAM);
}

TEST_CASE("records of services survive their way, and hostile bytes do no harm", "[services]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  App app;
  app.command = {"./x", "y"};
  app.ranks = 2;
  app.hosts = {"a"};
  app.path = "/p";
  app.sets = {"ocean", "all"};
  SpawnOrder order;
  order.space = {"job.3", 3, 17, 2, {app}, {"job", 1}};
  order.host_of = {1, 0};
  const std::vector<std::string> good{encode(Publish{{"s", 1}, Audience::host, Lasting::process, {{"k", "v"}, {"l", ""}}}),
                                      encode(Lookup{{"s", 1}, {"k", "l"}, true, 7}),
                                      encode(Found{{{"s", 2}, "k", "v"}}),
                                      encode(Unpublish{{"s", 1}, {"k"}}),
                                      encode(Gather{Gather::What::disconnect, "g", {{"s", all_ranks}}, "data"}),
                                      encode(Gathered{9, "data"}),
                                      encode(Notice{-44, {"s", 1}, 3, "infos"}),
                                      encode(SpawnWish{{"s", 1}, "node", {app}}),
                                      encode(Spawned{"s.1", "why"}),
                                      encode(order)};
  const auto again = [](size_t which, const std::string& bytes) -> std::optional<std::string> {
    const auto back = [](const auto& record) { return record ? std::optional(encode(*record)) : std::nullopt; };
    switch (which) {
      case 0: return back(decode_publish(bytes));
      case 1: return back(decode_lookup(bytes));
      case 2: return back(decode_found(bytes));
      case 3: return back(decode_unpublish(bytes));
      case 4: return back(decode_gather(bytes));
      case 5: return back(decode_gathered(bytes));
      case 6: return back(decode_notice(bytes));
      case 7: return back(decode_spawn_wish(bytes));
      case 8: return back(decode_spawned(bytes));
      default: return back(decode_spawn_order(bytes));
    }
  };
  for (size_t i = 0; i < good.size(); i++) {
    CHECK(again(i, good[i]) == good[i]);
    for (size_t cut = 0; cut < good[i].size(); cut++) CHECK_FALSE(again(i, good[i].substr(0, cut)));
    CHECK_FALSE(again(i, good[i] + "x"));
  }
  for (int round = 0; round < 20000; round++) {
    std::string bytes = good[random() % good.size()];
    if (round % 2) bytes.resize(random() % 100);
    for (int change = 0; change < 3 && !bytes.empty(); change++) bytes[random() % bytes.size()] = char(random());
    const size_t which = random() % good.size();
    if (const auto back = again(which, bytes)) REQUIRE(*back == bytes);
  }
}
