#include "launcher/tree/leaf_state.h"

namespace weft::launcher::tree {

const char* to_string(Stage stage) {
  static constexpr const char* names[] = {"join", "prepare", "serve", "leave", "gone"};
  return names[static_cast<int>(stage)];
}

std::vector<Deed> LeafState::leave() {
  if (stage_ == Stage::join) {  // nothing has been begun
    stage_ = Stage::gone;
    return {Deed::exit_bad};
  }
  stage_ = Stage::leave;
  return {Deed::end_children, Deed::start_patience, Deed::kill_ranks};
}

std::vector<Deed> LeafState::go_if_done() {
  if (!ranks_gone_ || !below_gone_) return {};
  stage_ = Stage::gone;
  if (orphan_) return {Deed::exit_bad};
  return {Deed::say_farewell, Deed::exit_good};
}

std::vector<Deed> LeafState::step(Happening happening) {
  if (stage_ == Stage::gone) return {};
  const bool leaving = stage_ == Stage::leave;
  switch (happening) {
    case Happening::planned:
      if (stage_ != Stage::join) return {};
      stage_ = Stage::prepare;
      return {Deed::start_children, Deed::prepare};  // children first: they take longest
    case Happening::prepared:
      if (stage_ != Stage::prepare) return {};
      stage_ = Stage::serve;
      return {Deed::say_up};
    case Happening::unable: return stage_ == Stage::prepare ? std::vector{Deed::say_unable} : std::vector<Deed>{};
    case Happening::launch:
      if (stage_ != Stage::serve || launched_) return {};
      launched_ = true;
      return {Deed::launch};
    case Happening::signal: return launched_ && !leaving ? std::vector{Deed::signal} : std::vector<Deed>{};
    case Happening::spawn: return launched_ && !leaving ? std::vector{Deed::launch_spawned} : std::vector<Deed>{};
    case Happening::shutdown: return leaving ? std::vector<Deed>{} : leave();
    case Happening::orphaned: {
      const bool before = orphan_;
      orphan_ = true;
      return leaving || before ? std::vector<Deed>{} : leave();
    }
    case Happening::child_lost: return leaving || stage_ == Stage::join ? std::vector<Deed>{} : std::vector{Deed::say_child_lost};
    case Happening::ranks_gone:
      if (!leaving) return {};
      ranks_gone_ = true;
      return go_if_done();
    case Happening::below_gone:
      if (!leaving) return {};
      below_gone_ = true;
      return go_if_done();
    case Happening::patience_over:
      if (!leaving) return {};
      stage_ = Stage::gone;
      return {Deed::cut_children, orphan_ ? Deed::exit_bad : Deed::exit_good};
  }
  return {};
}

}  // namespace weft::launcher::tree
