// SPDX-License-Identifier: MIT
#include "interpose/process/snapshot_form.hpp"

#include <string_view>
#include <utility>

namespace custash::snapshot {
namespace {

constexpr std::string_view kJson = ".json";

}  // namespace

std::optional<Form> form_of_ending(const std::string& path) {
  constexpr std::pair<std::string_view, Form> kEndings[] = {{".trace.json", Form::Trace},
                                                            {".perfetto", Form::Trace},
                                                            {kJson, Form::Json},
                                                            {".html", Form::Html},
                                                            {".pickle", Form::Pickle},
                                                            {".pkl", Form::Pickle},
                                                            {".pb.gz", Form::Pprof},
                                                            {".folded", Form::Folded}};
  for (const auto& [ending, form] : kEndings)
    if (path.size() > ending.size() && path.ends_with(ending)) return form;
  return std::nullopt;
}

std::string json_path(const std::string& path) {
  return form_of_ending(path) == Form::Json ? path : path + std::string(kJson);
}

std::string rendered_path(const std::string& json) {
  if (!json.ends_with(kJson)) return "";
  const std::string path = json.substr(0, json.size() - kJson.size());
  return json_path(path) == json && form_of_ending(path) ? path : "";
}

std::string rendering_hint(const std::string& json) {
  return json + " written; custash report " + json + " makes " + rendered_path(json);
}

}  // namespace custash::snapshot
