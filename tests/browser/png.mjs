// Makes a screenshot small: 256 colours, the most frequent ones that differ; other pixels take the nearest of these.
import { deflateSync, inflateSync } from 'node:zlib';

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);

export function shrink(png) {
  const parts = {};
  for (let at = 8; at < png.length; ) {
    const size = png.readUInt32BE(at);
    const kind = png.toString('latin1', at + 4, at + 8);
    parts[kind] = Buffer.concat([parts[kind] ?? Buffer.alloc(0), png.subarray(at + 8, at + 8 + size)]);
    at += 12 + size;
  }
  const [width, height] = [parts.IHDR.readUInt32BE(0), parts.IHDR.readUInt32BE(4)];
  const depth = { 2: 3, 6: 4 }[parts.IHDR[9]];
  const bytes = unfilter(inflateSync(parts.IDAT), width * depth, height, depth);
  const colours = new Map();
  for (let at = 0; at < bytes.length; at += depth) {
    const colour = (bytes[at] << 16) | (bytes[at + 1] << 8) | bytes[at + 2];
    colours.set(colour, (colours.get(colour) ?? 0) + 1);
  }
  const palette = [];
  for (const [colour] of [...colours].sort(([, one], [, two]) => two - one)) {
    if (palette.length < 256 && palette.every((other) => far(colour, other) > 80)) palette.push(colour);
  }
  const index = new Map(palette.map((colour, at) => [colour, at]));
  const rows = Buffer.alloc((width + 1) * height);
  for (let pixel = 0; pixel < width * height; pixel += 1) {
    const at = pixel * depth;
    const colour = (bytes[at] << 16) | (bytes[at + 1] << 8) | bytes[at + 2];
    if (!index.has(colour)) index.set(colour, nearest(palette, colour));
    rows[pixel + Math.floor(pixel / width) + 1] = index.get(colour);
  }
  const head = Buffer.from(parts.IHDR);
  [head[8], head[9]] = [8, 3];
  const table = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  return Buffer.concat([SIGNATURE, part('IHDR', head), part('PLTE', table), part('IDAT', deflateSync(rows, { level: 9 })), part('IEND', Buffer.alloc(0))]);
}

/** Undoes the filters of the rows. */
function unfilter(data, stride, height, depth) {
  const bytes = Buffer.alloc(stride * height);
  for (let row = 0; row < height; row += 1) {
    const filter = data[row * (stride + 1)];
    for (let at = 0; at < stride; at += 1) {
      const here = row * stride + at;
      const left = at >= depth ? bytes[here - depth] : 0;
      const up = row ? bytes[here - stride] : 0;
      const corner = row && at >= depth ? bytes[here - stride - depth] : 0;
      const guess = left + up - corner;
      const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
      const paeth = a <= b && a <= c ? left : b <= c ? up : corner;
      bytes[here] = data[row * (stride + 1) + 1 + at] + [0, left, up, (left + up) >> 1, paeth][filter];
    }
  }
  return bytes;
}

function nearest(palette, colour) {
  let best = 0;
  palette.forEach((other, at) => (best = far(colour, other) < far(colour, palette[best]) ? at : best));
  return best;
}

/** How much two colours differ. */
function far(one, two) {
  return [16, 8, 0].reduce((sum, shift) => sum + (((one >> shift) & 255) - ((two >> shift) & 255)) ** 2, 0);
}

function part(kind, data) {
  const whole = Buffer.concat([Buffer.from(kind, 'latin1'), data]);
  const [size, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  size.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc(whole));
  return Buffer.concat([size, whole, sum]);
}

function crc(bytes) {
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}
