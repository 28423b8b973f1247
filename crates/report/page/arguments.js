// What tasks were given.

/** @typedef {{ mode: string, dtype: string, shape: number[], strides?: number[] }} Form
 * @typedef {{ mode: string, type: string, where: string }} Argument what a task does with it, what it is, which part of which buffer */

class Arguments {
  /** @param {Run} run @param {Indexed} count @param {Indexed} form @param {Indexed} tensor @param {Indexed} offset @param {Indexed} buffer @param {Indexed} version */
  constructor(run, count, form, tensor, offset, buffer, version) {
    this.run = run;
    this.count = count;
    this.form = form;
    this.tensor = tensor;
    this.offset = offset;
    this.buffer = buffer;
    this.version = version;
  }

  /** @param {Run} run @param {Source} column @returns {Promise<Arguments | null>} */
  static async load(run, column) {
    const [count, form, tensor, offset, buffer, version] = await Promise.all(["arg.count", "arg.form", "arg.tensor", "arg.offset", "tensor.buffer", "tensor.version"].map(column));
    if (!count || !form || !tensor || !offset || !buffer || !version) return null;
    const [delta, plain] = /** @type {["delta", "plain"]} */ (["delta", "plain"]);
    return new Arguments(run, new Indexed(count, "sum"), new Indexed(form, plain), new Indexed(tensor, delta), new Indexed(offset, delta), new Indexed(buffer, delta), new Indexed(version, plain));
  }

  /** The arguments of a task, in order. @param {number} task @returns {Argument[]} */
  of(task) {
    const node = this.run.graph.node(task);
    if (node < 0) return [];
    const from = node > 0 ? this.count.at(node - 1) : 0;
    return Array.from({ length: this.count.at(node) - from }, (_, at) => this.argument(from + at));
  }

  /** @param {number} at @returns {Argument} */
  argument(at) {
    const form = this.run.meta.forms[this.form.at(at)];
    const strides = form.strides ? `, strides ${form.strides.join(" ")}` : "";
    // A file that tells neither element nor shape of an argument is read as one of the user's own type without extent.
    const untold = form.dtype === "user" && form.shape.length === 0;
    const type = form.mode === "scalar" ? form.dtype : untold ? "–" : `${form.dtype}[${form.shape.join("×")}]${strides}`;
    const tensor = this.tensor.at(at) - 1;
    if (tensor < 0) return { mode: form.mode, type, where: "" };
    const version = this.version.at(tensor);
    const offset = this.offset.at(at);
    return { mode: form.mode, type, where: `buffer ${this.buffer.at(tensor)}${version > 0 ? `, version ${version}` : ""}${offset > 0 ? `, from element ${count(offset)}` : ""}` };
  }
}
