// Opens every page below some folders in a headless Chromium, as a reader would: from disk, on a phone and on a desktop, light
// and dark. Prints a line for each thing that is wrong, and exits with 1 if there is any.
//
//     node open.mjs AXE FOLDER…          AXE: the file axe.min.js; CHROMIUM names the browser (else `chromium`)
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const VIEWS = ["light", "dark"].flatMap((scheme) => [
  { name: `phone, ${scheme}`, scheme, width: 390, height: 844, mobile: true },
  { name: `desktop, ${scheme}`, scheme, width: 1280, height: 900, mobile: false },
]);
// The slow part. Colours do not depend on the width, nor boxes on the colours, so each width and each scheme once.
const HELD_AGAINST_AXE = ["phone, dark", "desktop, light"];
// Chromium asks for things of its own, which a closed network refuses and an open one should not see.
const OPTIONS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--allow-file-access-from-files",
  "--remote-debugging-pipe",
];

/** A browser that is spoken to through two pipes: one JSON message after another, each ended by a zero byte. */
class Browser {
  #answers = new Map();
  #listeners = new Set();
  #number = 0;
  #rest = "";

  constructor(profile) {
    const program = process.env.CHROMIUM || "chromium";
    const stdio = ["ignore", "ignore", "ignore", "pipe", "pipe"];
    this.process = spawn(program, [...OPTIONS, `--user-data-dir=${profile}`], { stdio });
    this.gone = new Promise((_, reject) => {
      this.process.on("error", reject);
      this.process.on("exit", (code) => reject(new Error(`${program} ended (${code})`)));
    });
    this.gone.catch(() => {});
    this.process.stdio[4].setEncoding("utf8").on("data", (text) => this.#read(text));
  }

  #read(text) {
    const messages = (this.#rest + text).split("\0");
    this.#rest = messages.pop();
    for (const message of messages.map((message) => JSON.parse(message))) {
      const answer = this.#answers.get(message.id);
      this.#answers.delete(message.id);
      if (answer && message.error) answer.reject(new Error(JSON.stringify(message.error)));
      else if (answer) answer.resolve(message.result);
      else for (const listener of this.#listeners) listener(message);
    }
  }

  send(method, params = {}, sessionId = undefined) {
    const id = ++this.#number;
    const answer = new Promise((resolve, reject) => this.#answers.set(id, { resolve, reject }));
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return Promise.race([answer, this.gone]);
  }

  /** Calls back with each event until the returned function is called. */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** What is looked at within the page. */
async function inspect() {
  for (const details of document.querySelectorAll("details")) details.open = true;
  const root = document.documentElement;
  const problems = [];
  if (root.scrollWidth > root.clientWidth) {
    const wide = [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > root.clientWidth + 1);
    const first = wide.find((one) => !one.closest(".table, .chart, pre")) ?? wide[0];
    problems.push(`it scrolls sideways (${root.scrollWidth} > ${root.clientWidth}): ${first?.outerHTML.slice(0, 120)}`);
  }
  for (const image of document.images) {
    if (!image.complete || image.naturalWidth === 0) problems.push(`the image ${image.src} does not show`);
  }
  for (const picture of document.querySelectorAll("svg")) {
    if (picture.getBoundingClientRect().height < 50) problems.push("a chart has no height");
    if (!picture.querySelector("title")?.textContent) problems.push("a chart has no title");
  }
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of ids.filter((id, at) => ids.indexOf(id) !== at)) problems.push(`the id ${id} is there twice`);
  if (document.querySelector("script, iframe, object, embed, form, base")) problems.push("it holds what a report must not");
  for (const one of document.querySelectorAll("*")) {
    for (const { name } of one.attributes) if (/^on/i.test(name)) problems.push(`it holds the attribute ${name}`);
  }
  const links = [...document.querySelectorAll("a[href], link[href]")].map((link) => link.href);
  return { problems, links: [...new Set(links)] };
}

async function accessibility() {
  const found = await axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
    resultTypes: ["violations"],
  });
  return found.violations.map(({ id, nodes, help }) => `${id} (${help}), ${nodes.length} times: ${nodes[0].html.slice(0, 160)} ${nodes[0].failureSummary.replaceAll("\n", " ").slice(0, 200)}`);
}

const files = (folder, ending) =>
  readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(ending)).map((name) => join(folder, name)).sort();

/** Whether a link leads to something; what is wrong with it otherwise. */
function broken(link, ownPage) {
  const address = new URL(link);
  if (address.protocol === "data:") return undefined;
  if (address.protocol !== "file:") return `it leads to ${link}`;
  const anchor = decodeURIComponent(address.hash.slice(1));
  address.hash = "";
  const path = fileURLToPath(address);
  if (!existsSync(path)) return `it leads to ${path}, which is not there`;
  if (statSync(path).isDirectory()) return `it leads to the folder ${path}, which a web server need not list`;
  if (anchor && !readFileSync(path, "utf8").includes(`id="${anchor}"`)) return `${path === ownPage ? "" : path} has no #${anchor}`;
  return undefined;
}

/** What is wrong with the text of an Atom feed: it is evaluated in a page, which can read XML. */
function readFeed(text) {
  const feed = new DOMParser().parseFromString(text, "application/xml");
  const wrong = feed.querySelector("parsererror")?.textContent;
  if (wrong) return [wrong];
  const problems = [];
  for (const one of feed.querySelectorAll("feed, entry")) {
    for (const name of ["id", "title", "updated"]) {
      const found = [...one.children].filter((child) => child.localName === name && child.namespaceURI === "http://www.w3.org/2005/Atom");
      if (found.length !== 1 || !found[0].textContent.trim()) problems.push(`${one.localName} has no one ${name}`);
    }
  }
  const ids = [...feed.querySelectorAll("id")].map((id) => id.textContent);
  if (ids.length < 2 || new Set(ids).size !== ids.length) problems.push(`its ids are ${ids}`);
  return problems;
}

async function look(browser, session, page, view, axe) {
  const problems = [];
  const loads = [];
  let arrived = () => {};
  const stop = browser.listen(({ method, params, sessionId }) => {
    if (sessionId !== session) return;
    if (method === "Page.lifecycleEvent" && params.name === "load") loads.push(params.loaderId), arrived();
    if (method === "Network.requestWillBeSent" && !/^(file|data):/.test(params.request.url)) problems.push(`it asks for ${params.request.url}`);
    if (method === "Network.loadingFailed") problems.push(`a request failed: ${params.errorText}`);
    if (method === "Runtime.exceptionThrown") problems.push(`an exception: ${params.exceptionDetails.text}`);
    if (method === "Runtime.consoleAPICalled") problems.push(`the console says: ${JSON.stringify(params.args)}`);
    if (method === "Log.entryAdded") problems.push(`the log says: ${params.entry.text}`);
    if (method === "Page.javascriptDialogOpening") problems.push(`a dialog: ${params.message}`);
  });
  const send = (method, params) => browser.send(method, params, session);
  const evaluate = async (expression) => {
    const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${page}: ${JSON.stringify(exceptionDetails)}`);
    return result.value;
  };
  const { width, height, mobile, scheme } = view;
  await send("Emulation.setDeviceMetricsOverride", { width, height, mobile, deviceScaleFactor: 1 });
  await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  // A late word of the page before is not this one's.
  const { loaderId } = await send("Page.navigate", { url: pathToFileURL(page).href });
  while (!loads.includes(loaderId)) await Promise.race([new Promise((resolve) => (arrived = resolve)), browser.gone]);
  const seen = await evaluate(`(${inspect})()`);
  problems.push(...seen.problems, ...seen.links.map((link) => broken(link, page)).filter(Boolean));
  if (HELD_AGAINST_AXE.includes(view.name)) {
    await evaluate(axe);
    problems.push(...(await evaluate(`(${accessibility})()`)));
  }
  stop();
  return problems.map((problem) => `${page} (${view.name}): ${problem}`);
}

async function main([axePath, ...folders]) {
  const axe = `${readFileSync(axePath, "utf8")}; undefined`;
  const profile = mkdtempSync(join(tmpdir(), "shice-browser-"));
  const browser = new Browser(profile);
  const problems = [];
  const all = folders.flatMap((folder) => files(folder, ".html"));
  const feeds = folders.flatMap((folder) => files(folder, "feed.xml"));
  try {
    const { targetId } = await browser.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await browser.send("Target.attachToTarget", { targetId, flatten: true });
    for (const domain of ["Page", "Network", "Runtime", "Log"]) await browser.send(`${domain}.enable`, {}, sessionId);
    await browser.send("Page.setLifecycleEventsEnabled", { enabled: true }, sessionId);
    for (const page of all) {
      for (const view of VIEWS) problems.push(...(await look(browser, sessionId, page, view, axe)));
    }
    for (const feed of feeds) {
      const expression = `(${readFeed})(${JSON.stringify(readFileSync(feed, "utf8"))})`;
      const { result } = await browser.send("Runtime.evaluate", { expression, returnByValue: true }, sessionId);
      problems.push(...(result.value ?? [JSON.stringify(result)]).map((problem) => `${feed}: ${problem}`));
    }
    await browser.send("Browser.close").catch(() => {});
  } finally {
    browser.process.kill("SIGKILL");
    await new Promise((resolve) => (browser.process.exitCode ?? browser.process.signalCode) === null ? browser.process.once("exit", resolve) : resolve());
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
  for (const problem of problems) console.log(problem);
  console.log(`${all.length} pages in ${VIEWS.length} views, ${feeds.length} feeds, ${problems.length} problems`);
  return all.length > 0 && problems.length === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
