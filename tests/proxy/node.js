// A server of Node's, with its defaults but one: answers by path. Arguments: host and port.
'use strict';

const crypto = require('node:crypto');
const http = require('node:http');
const { Readable } = require('node:stream');

const listeners = new Set();
let connections = 0;

const answers = {
  whole(request, response) {
    response.setHeader('Content-Length', 11);
    response.setHeader('ETag', '"whole"');
    if (request.headers['if-none-match'] === '"whole"') {
      response.removeHeader('Content-Length');
      response.writeHead(304);
    }
    response.end('some answer');
  },

  nothing(request, response) {
    response.writeHead(204).end();
  },

  // Says that the connection stays, and closes it.
  leaves(request, response) {
    response.on('finish', () => request.socket.end());
    response.end('left');
  },

  chunked(request, response) {
    response.writeHead(200, { 'Content-Type': 'text/plain', Trailer: 'X-Sum' });
    for (const piece of ['one ', 'two ', 'three']) response.write(piece);
    response.addTrailers({ 'X-Sum': '13' });
    response.end();
  },

  large(request, response) {
    const lines = function* () {
      for (let n = 0; n < 1_000_000; n += 1000) {
        let piece = '';
        for (let line = n; line < n + 1000; line++) piece += `line ${String(line).padStart(10, '0')}\n`;
        yield piece;
      }
    };
    Readable.from(lines()).pipe(response);
  },

  // While it still comes.
  echo(request, response) {
    const length = request.headers['content-length'];
    if (length !== undefined) response.setHeader('Content-Length', length);
    request.pipe(response);
  },

  trailers(request, response) {
    request.resume().on('end', () => response.end(JSON.stringify(request.trailers)));
  },

  events(request, response) {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
    response.flushHeaders();
    listeners.add(response);
    response.on('close', () => listeners.delete(response));
  },

  say(request, response) {
    for (const listener of listeners) listener.write(`data: ${request.url.split('?')[1]}\n\n`);
    response.end(String(listeners.size));
  },

  early(request, response) {
    response.writeProcessing();
    response.end('late');
  },
};

const server = http.createServer((request, response) => {
  response.setHeader('X-Connection', request.socket.number);
  const name = request.url.split('?')[0].slice(1);
  if (Object.hasOwn(answers, name)) return answers[name](request, response);
  response.writeHead(404).end('no such page');
});

server.on('connection', (socket) => {
  socket.number = ++connections;
});

server.on('upgrade', (request, socket, head) => {
  const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const key = request.headers['sec-websocket-key'];
  const proof = crypto.createHash('sha1').update(key + guid).digest('base64');
  socket.write(
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
      `Sec-WebSocket-Accept: ${proof}\r\n\r\n`,
  );
  socket.write(head);
  socket.pipe(socket);
});

// A machine that is busy may need longer from one request to the next than the default of five
// seconds; tests for connections that end see to that themselves.
server.keepAliveTimeout = 0;
server.listen(Number(process.argv[3]), process.argv[2]);
