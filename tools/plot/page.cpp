// SPDX-License-Identifier: MIT

#include "interpose/process/printable.hpp"
#include "tools/plot/svg.hpp"

namespace custash::page {
namespace {

constexpr const char* kStyle =
    ":root { color-scheme: light dark; --text: #222; --grid: #ddd; --back: #fff; --soft: #666 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  :root { --text: #ddd; --grid: #3a3d42; --back: #17191c; --soft: #9aa0a6 }\n}\n"
    "body { font: 15px/1.5 sans-serif; color: var(--text); background: var(--back);\n"
    "  max-width: 64rem; margin: 2rem auto; padding: 0 1rem }\n"
    "h1 { font-size: 1.2rem; overflow-wrap: anywhere } h2 { font-size: 1rem }\n"
    ".soft { color: var(--soft) } .wide { overflow-x: auto }\n"
    "svg { fill: var(--text) }\n"
    "svg path[stroke=\"#ddd\"] { stroke: var(--grid) }\n"
    "table { border-collapse: collapse } td, th { padding: .3rem .8rem; text-align: right;\n"
    "  border-bottom: 1px solid var(--grid); white-space: nowrap }\n"
    "td:first-child, th:first-child { text-align: left; padding-left: 0 }\n"
    "li { overflow-wrap: anywhere }\n";

}  // namespace

std::string head(const std::string& title, const std::string& style) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"generator\" content=\"custash\">\n"
         "<meta http-equiv=\"Content-Security-Policy\"\n"
         "  content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
         "<meta name=\"viewport\" content=\"width=device-width\">\n"
         "<title>" +
         title + "</title>\n<style>\n" + kStyle + style + "</style></head><body>\n";
}

std::string tag(const char* name, const std::string& text) {
  return std::string("<") + name + ">" + svg::escaped(printable(text)) + "</" + name + ">";
}

}  // namespace custash::page
