// What pages use of their libraries, which libraries.cmake bundles as one global of this file's name.
import { axisX, barX, dot, line, link, plot, pointer, rectX, ruleX, ruleY, text, tip } from "@observablehq/plot";
import htm from "htm";
import { h } from "preact";
import {
  FilterModule, FormatModule, InteractionModule, ResizeTableModule, SortModule, Tabulator,
} from "tabulator-tables";
import "tabulator-tables/dist/css/tabulator.min.css";

Tabulator.registerModule([FilterModule, FormatModule, InteractionModule, ResizeTableModule, SortModule]);

export { render } from "preact";
export { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
export { Tabulator };
export const html = htm.bind(h);
export const Plot = { axisX, barX, dot, line, link, plot, pointer, rectX, ruleX, ruleY, text, tip };
