// The entry of the page: in a file that holds its own data, or on regard's server.
import { begin } from "./begin.js";
import { fromDocument, fromServer } from "./resources.js";

begin((held) => (held ? fromDocument(held) : fromServer()));
