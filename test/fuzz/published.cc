// What processes publish through PMIx, what comes over RDMA devices and UCX, and what the tools read of the library.
#include <config.h>

#include <algorithm>
#include <bit>

#include "btl/ucx/notes.h"
#include "pml/addresses.h"
#include "runtime/base/json.h"
#include "runtime/boot/rank_list.h"
#include "test/fuzz/fuzz.h"
#include "tools/report.h"
#ifdef HAVE_VERBS
#include "btl/verbs/arrival.h"
#endif

namespace weft::fuzz {
namespace {

using namespace weft::btl;

Target addresses() {
  const pml::Addresses some{{1, blob_of("an address")}, {0x73686d, {}}, {3, blob_of(std::string(300, 'a'))}};
  return {"pml/addresses", {text_of(pml::encode(some)), text_of(pml::encode({}))}, [](std::string_view in) {
            if (const auto theirs = pml::decode_addresses(blob_of(in)))
              need(text_of(pml::encode(*theirs)) == in, "addresses are not what they were when encoded again");
          }};
}

Target rank_lists() {
  return {"pmix/local-peers", {"0,1,4-6", "3", "0-31"}, [](std::string_view in) {
            const auto ranks = boot::parse_ranks(std::string(in));
            need(ranks.size() <= 1u << 20, "more ranks than there can be");
            need(std::ranges::adjacent_find(ranks, std::ranges::greater_equal()) == ranks.end(), "ranks are not in order");
          }};
}

/// Header and data as UCX hands them over, of messages with one piece and with two; the hello and the farewells are notes alone.
Target ucx_notes() {
  static const ucx::Token token{0x12345678, 1, 4};
  Header header{7, 1, 2, 2 ^ token.whole, 0x1234, 1, 0};
  const std::string note = bytes_of(ucx::Note{header}), brief = bytes_of(ucx::ShortNote(header, 3 ^ token.part()));
  const std::string none(2, '\0');
  return {"ucx/notes",
          {"m\x18" + std::string(1, '\0') + note + "data", "m\x1b" + std::string(1, '\0') + note + "abc", "s" + none + brief + "abc"},
          [](std::string_view in) {
            Script script(in);
            const bool is_short = script.number(1) == 's';
            const auto length = script.number(2);
            const auto front = blob_of(script.piece(is_short ? kLongest : length));
            const auto data = blob_of(script.piece(kLongest));
            const auto arrival =
                is_short ? token.read_short(front.data(), front.size(), data.size()) : token.read(front.data(), front.size(), data.size());
            if (!arrival) return;
            need(rank_of(arrival->from) < token.size && rank_of(arrival->from) != rank_of(token.rank),
                 "a stranger is taken for a process of the job");
            const size_t note_bytes = is_short ? sizeof(ucx::ShortNote) : sizeof(ucx::Note);
            need(arrival->header.length == front.size() - note_bytes + data.size() || is_short, "a length that is not that of the payload");
            need(!is_short || arrival->header.length == front.size() - note_bytes, "a length that is not that of the payload");
          }};
}

Target ucx_cards() {
  const std::string address = "what UCX says";
  const auto card = ucx::Card{.token = 5}.before(address.data(), address.size());
  return {"ucx/address", {text_of(card), text_of(ucx::Card{.token = 6}.before("", 0))}, [](std::string_view in) {
            const auto published = blob_of(in);
            const auto theirs = ucx::Card::address_in(published, 5);
            if (theirs.empty()) return;
            need(theirs.data() + theirs.size() == published.data() + published.size(), "UCX's address is not what was published");
            need(text_of(ucx::Card{.token = 5, .slots = ucx::Card::of(published).slots, .rdma = ucx::Card::of(published).rdma}.before(
                     theirs.data(), theirs.size())) == in,
                 "a card is not what it was when made again");
          }};
}

#ifdef HAVE_VERBS
/// Slots that a peer has filled with whatever it likes, one after another.
Target verbs_slots() {
  auto slot = [](verbs::Tag::What what, const std::string& bytes) {
    const auto n = static_cast<uint16_t>(bytes.size());
    return bytes_of(verbs::Tag{3, what, 0}) + bytes_of(n) + bytes;
  };
  const std::string message = bytes_of(Header{7, 1, 2, 5, 3, 1, 0}) + "hello";
  using What = verbs::Tag::What;
  return {"verbs/slots",
          {slot(What::message, message) + slot(What::alike, "again") + slot(What::credit, "") + slot(What::bye, ""),
           slot(What::alike, "first"), slot(What::message, message) + slot(What::alike, std::string(8192, 'x'))},
          [](std::string_view in) {
            Script script(in);
            Header last;
            uint64_t sum = 0;
            while (!script.over()) {
              const auto tag = std::bit_cast<verbs::Tag>(static_cast<uint32_t>(script.number(sizeof(verbs::Tag))));
              // what a device has written into a slot, exactly so long that reading past it shows
              const auto bytes = blob_of(script.piece(std::min<uint64_t>(script.number(2), verbs::kSlotBytes)));
              const auto arrival = verbs::read_arrival(bytes.data(), static_cast<uint32_t>(bytes.size()), tag, last);
              if (arrival.trouble) return;
              if (!arrival.payload) continue;
              last = arrival.header;
              need(arrival.header.length <= verbs::kMostPayload, "a message longer than messages can be");
              for (uint32_t i = 0; i < arrival.header.length; ++i) sum += uint8_t(arrival.payload[i]);
            }
            need(sum < ~uint64_t{0}, "never");
          }};
}
#endif

/// What the library says of itself, and what `weft info --json` makes of it.
Target descriptions() {
  const std::string variable =
      R"({"name":"WEFT_NET","module":"","type":"text","value":"auto","default":"auto","origin":"default","help":"Transports"})";
  const std::string seed = R"({"version":"1","abi":"5","transports":["self","tcp"],"built_with":{"PMIx":"4.2"},"variables":[)" + variable +
                           R"(],"complaints":["WEFT_X is unknown"]})";
  return {"weft/info", {seed}, [](std::string_view in) {
            const auto read = tools::parse_description(std::string(in).c_str());
            if (!read) return;
            const auto again = tools::parse_description(tools::to_json(*read, {{"UCX", "1.13", std::string(in.substr(0, 40))}}).c_str());
            need(again && again->settings.size() == read->settings.size(), "what weft info writes cannot be read");
          }};
}

/// Values of variables, whatever they are, as the library quotes them.
Target quotes() {
  return {"api/quotes",
          {"plain", "a \"b\" \\ \n\x01", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82", "\xff\xc3", "\xed\xa0\x80"},
          [](std::string_view in) {
            const std::string text = json_quoted(in);
            const auto read = tools::parse_description(
                (R"({"version":)" + text + R"(,"abi":"","transports":[)" + text + R"(],"built_with":{},"variables":[],"complaints":[]})")
                    .c_str());
            need(bool(read), "a quoted text is not JSON");
            need(read->version == in || read->version.find("\xef\xbf\xbd") != std::string::npos, "a quoted text is another one");
          }};
}

}  // namespace

void add_published(Targets& all) {
  all.push_back(addresses());
  all.push_back(rank_lists());
  all.push_back(ucx_notes());
  all.push_back(ucx_cards());
#ifdef HAVE_VERBS
  all.push_back(verbs_slots());
#endif
  all.push_back(descriptions());
  all.push_back(quotes());
}

}  // namespace weft::fuzz
