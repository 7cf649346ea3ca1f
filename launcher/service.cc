#include "launcher/service.h"

#include "launcher/tree/message.h"
#include "runtime/base/bytes.h"

namespace weft::launcher {
namespace {

constexpr uint32_t ranks_limit = 1u << 24;

void write(Writer& out, const Proc& proc) {
  out.text(proc.space);
  out.u32(proc.rank);
}
Proc read_proc(Reader& in) {
  Proc proc;
  proc.space = in.text();
  proc.rank = in.u32();
  return proc;
}

/// One of the values up to `last`.
template <class E>
E read_one_of(Reader& in, E last) {
  const uint8_t value = in.u8();
  if (value > uint8_t(last)) return E(in.fail());
  return E(value);
}

void write(Writer& out, const std::vector<App>& apps) {
  out.u32(uint32_t(apps.size()));
  for (const App& app : apps) tree::write_app(out, app);
}
std::vector<App> read_apps(Reader& in) {
  std::vector<App> apps(in.length(29));
  uint64_t ranks = 0;
  for (App& app : apps) {
    app = tree::read_app(in);
    ranks += app.ranks;
    if (!app.ranks) in.fail();
  }
  if (apps.empty() || ranks > ranks_limit) in.fail();
  return apps;
}

}  // namespace

std::string encode(const Publish& publish) {
  Writer out;
  write(out, publish.who);
  out.u8(uint8_t(publish.audience));
  out.u8(uint8_t(publish.lasting));
  out.u32(uint32_t(publish.items.size()));
  for (const auto& [name, value] : publish.items) out.text(name), out.text(value);
  return out.take();
}
std::optional<Publish> decode_publish(std::string_view body) {
  Reader in(body);
  Publish publish;
  publish.who = read_proc(in);
  publish.audience = read_one_of(in, Audience::self);
  publish.lasting = read_one_of(in, Lasting::space);
  publish.items.resize(in.length(8));
  for (auto& [name, value] : publish.items) name = in.text(), value = in.text();
  return whole(in, std::move(publish));
}

std::string encode(const Lookup& lookup) {
  Writer out;
  write(out, lookup.who);
  out.texts(lookup.names);
  out.u8(lookup.wait);
  out.u32(lookup.timeout_s);
  return out.take();
}
std::optional<Lookup> decode_lookup(std::string_view body) {
  Reader in(body);
  Lookup lookup;
  lookup.who = read_proc(in);
  lookup.names = in.texts();
  lookup.wait = in.flag();
  lookup.timeout_s = in.u32();
  return whole(in, std::move(lookup));
}

std::string encode(const Found& found) {
  Writer out;
  out.u32(uint32_t(found.size()));
  for (const auto& one : found) {
    write(out, one.owner);
    out.text(one.name);
    out.text(one.value);
  }
  return out.take();
}
std::optional<Found> decode_found(std::string_view body) {
  Reader in(body);
  Found found(in.length(16));
  for (auto& one : found) {
    one.owner = read_proc(in);
    one.name = in.text();
    one.value = in.text();
  }
  return whole(in, std::move(found));
}

std::string encode(const Unpublish& unpublish) {
  Writer out;
  write(out, unpublish.who);
  out.texts(unpublish.names);
  return out.take();
}
std::optional<Unpublish> decode_unpublish(std::string_view body) {
  Reader in(body);
  Unpublish unpublish;
  unpublish.who = read_proc(in);
  unpublish.names = in.texts();
  return whole(in, std::move(unpublish));
}

std::string encode(const Gather& gather) {
  Writer out;
  out.u8(uint8_t(gather.what));
  out.text(gather.id);
  out.u32(uint32_t(gather.members.size()));
  for (const Proc& member : gather.members) write(out, member);
  out.text(gather.data);
  return out.take();
}
std::optional<Gather> decode_gather(std::string_view body) {
  Reader in(body);
  Gather gather;
  gather.what = read_one_of(in, Gather::What::last);
  gather.id = in.text();
  gather.members.resize(in.length(8));
  for (Proc& member : gather.members) member = read_proc(in);
  gather.data = in.text();
  return whole(in, std::move(gather));
}

std::string encode(const Gathered& gathered) {
  Writer out;
  out.u64(gathered.context);
  out.text(gathered.data);
  return out.take();
}
std::optional<Gathered> decode_gathered(std::string_view body) {
  Reader in(body);
  Gathered gathered;
  gathered.context = in.u64();
  gathered.data = in.text();
  return whole(in, std::move(gathered));
}

std::string encode(const Notice& notice) {
  Writer out;
  out.u32(uint32_t(notice.code));
  write(out, notice.source);
  out.u8(notice.range);
  out.text(notice.infos);
  return out.take();
}
std::optional<Notice> decode_notice(std::string_view body) {
  Reader in(body);
  Notice notice;
  notice.code = int32_t(in.u32());
  notice.source = read_proc(in);
  notice.range = in.u8();
  notice.infos = in.text();
  return whole(in, std::move(notice));
}

std::string encode(const SpawnWish& wish) {
  Writer out;
  write(out, wish.who);
  out.text(wish.map_by);
  write(out, wish.apps);
  return out.take();
}
std::optional<SpawnWish> decode_spawn_wish(std::string_view body) {
  Reader in(body);
  SpawnWish wish;
  wish.who = read_proc(in);
  wish.map_by = in.text();
  wish.apps = read_apps(in);
  return whole(in, std::move(wish));
}

std::string encode(const Spawned& spawned) {
  Writer out;
  out.text(spawned.space);
  out.text(spawned.why);
  return out.take();
}
std::optional<Spawned> decode_spawned(std::string_view body) {
  Reader in(body);
  Spawned spawned;
  spawned.space = in.text();
  spawned.why = in.text();
  return whole(in, std::move(spawned));
}

std::string encode(const SpawnOrder& order) {
  Writer out;
  out.text(order.space.name);
  out.u32(order.space.number);
  out.u32(order.space.first);
  write(out, order.space.apps);
  write(out, order.space.parent);
  out.numbers(order.host_of);
  return out.take();
}
std::optional<SpawnOrder> decode_spawn_order(std::string_view body) {
  Reader in(body);
  SpawnOrder order;
  order.space.name = in.text();
  order.space.number = in.u32();
  order.space.first = in.u32();
  order.space.apps = read_apps(in);
  order.space.parent = read_proc(in);
  order.host_of = in.numbers();
  uint64_t ranks = 0;
  for (const App& app : order.space.apps) ranks += app.ranks;
  if (ranks != order.host_of.size()) in.fail();
  order.space.ranks = uint32_t(order.host_of.size());
  return whole(in, std::move(order));
}

}  // namespace weft::launcher
