// Loads the page's scripts as the page does: all of them in one scope, in their order.
"use strict";
const fs = require("node:fs");
const path = require("node:path");

const folder = path.join(__dirname, "..");
const order = fs.readFileSync(path.join(folder, "../src/page/document.rs"), "utf8").matchAll(/page\/(\w+\.js)"\)/g);
const names = [...order].map((match) => match[1]).filter((name) => name !== "main.js");

/** @param {string[]} wanted names of top-level functions and classes */
module.exports = (...wanted) => {
  const text = names.map((name) => fs.readFileSync(path.join(folder, name), "utf8")).join("\n");
  return new Function(`"use strict";\n${text}\nreturn { ${wanted.join(", ")} };`)();
};
