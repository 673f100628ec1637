// Numbers as text.

/** `digits` after the point; very small ones in scientific notation. */
export function number(value, digits = 3) {
  if (!Number.isFinite(value)) return String(value).replace("-", "−");
  const short = value !== 0 && Math.abs(value) < 0.5 * 10 ** -digits ? value.toExponential(1) : value.toFixed(digits);
  return short.replace("-", "−");
}

/** 0.934 as "93 %", 0.0004 as "0.04 %". */
export function percent(probability) {
  const share = 100 * probability;
  if (share >= 99.95 && share < 100) return "99.9 %";
  if (share >= 10) return `${share.toFixed(share >= 99 && share < 100 ? 1 : 0)} %`;
  return share >= 0.01 ? `${Number(share.toPrecision(share < 0.1 ? 1 : 2))} %` : share > 0 ? "< 0.01 %" : "0 %";
}

/** 60 123 456 as "60.1 M". */
export function counted(value) {
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return `${Number((value / size).toPrecision(3))} ${unit}`;
  }
  return String(value);
}

/** Bytes in powers of 1024: "1.18 MiB". */
export function bytes(value) {
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (value >= size) return `${Number((value / size).toPrecision(3))} ${unit}`;
  }
  return `${value} bytes`;
}
