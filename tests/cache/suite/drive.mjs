// Runs cases of the package http-cache-tests against a server, and prints their results as JSON.
//
//     node drive.mjs DIRECTORY-OF-THE-PACKAGE URL-OF-THE-SERVER [ID...]
//
// An own client takes the place of the package's: it opens a connection for each request, follows no
// redirects, stores nothing and repeats nothing, so each request that arrives was sent by the suite.

import http from 'node:http'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const [directory, base, ...ids] = process.argv.slice(2)
const CONCURRENT_CASES = 40
const REQUEST_TIMEOUT = 20_000

const load = name => import(pathToFileURL(path.resolve(directory, name)).href)

// What the suite uses of the Fetch API.
function send (url, init = {}) {
  return new Promise((resolve, reject) => {
    const headers = {}
    for (const [name, value] of init.headers ?? []) {
      const key = Object.keys(headers).find(key => key.toLowerCase() === name.toLowerCase()) ?? name
      headers[key] = key in headers ? `${headers[key]}, ${value}` : String(value)
    }
    const body = init.body ?? ''
    if (body) headers['Content-Length'] = Buffer.byteLength(body)
    const options = { method: init.method ?? 'GET', headers, agent: false, timeout: REQUEST_TIMEOUT }
    const request = http.request(url, options, answer => {
      const chunks = []
      answer.on('data', chunk => chunks.push(chunk))
      answer.on('error', reject)
      answer.on('end', () => resolve(response(answer, Buffer.concat(chunks).toString())))
    })
    request.on('timeout', () => request.destroy(new Error(`no answer within ${REQUEST_TIMEOUT} ms`)))
    request.on('error', reject)
    request.end(body)
  })
}

function response (answer, text) {
  const headers = new Headers()
  for (let i = 0; i < answer.rawHeaders.length; i += 2) {
    headers.append(answer.rawHeaders[i], answer.rawHeaders[i + 1])
  }
  return { status: answer.statusCode, statusText: answer.statusMessage, headers, text: async () => text }
}

const config = await load('client/config.mjs')
const { makeCacheTest, testResults } = await load('client/test.mjs')
const suites = [...(await load('tests/index.mjs')).default, (await load('tests/surrogate-control.mjs')).default]
config.setFetch(send)
config.setBaseUrl(base)

const cases = suites.flatMap(suite => suite.tests)
  .filter(test => test.browser_only !== true && (ids.length === 0 || ids.includes(test.id)))
const waiting = [...cases]
const work = async () => {
  for (let test; (test = waiting.shift());) await makeCacheTest(test)
}
await Promise.all(Array.from({ length: CONCURRENT_CASES }, work))
console.log(JSON.stringify(cases.map(test => ({
  id: test.id,
  kind: test.kind ?? 'required',
  name: test.name,
  needs: test.depends_on ?? [],
  result: testResults[test.id]
}))))
