// Find "--update-freq" in the search box: its index takes leading dashes for "without this word".
const postMessage = Worker.prototype.postMessage
Worker.prototype.postMessage = function (message, ...rest) {
  if (typeof message?.data === "string")
    message = { ...message, data: message.data.replace(/(^|\s)-+(?=\w)/g, "$1") }
  return postMessage.call(this, message, ...rest)
}
