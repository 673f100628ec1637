// The image that a model read, pixel by pixel.

/** The pixels of an array [height, width, channels] (grey, RGB or RGBA, in bytes) as a canvas. */
export function picture({ data, shape: [height, width, channels] }) {
  const node = document.createElement("canvas");
  node.width = width;
  node.height = height;
  const pen = node.getContext("2d");
  const image = pen.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let channel = 0; channel < 3; channel++) image.data[4 * i + channel] = data[i * channels + (channels < 3 ? 0 : channel)];
    image.data[4 * i + 3] = channels === 4 ? data[i * channels + 3] : 255;
  }
  pen.putImageData(image, 0, 0);
  return node;
}
