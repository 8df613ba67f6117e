#!/usr/bin/env node
// sandbox-agent-runner: what would this cycle do, and does the workspace hold what it should?
//
//   node runner.mjs --request <file>        from the root of the workspace
//
// AIWG_A2A_ADAPTER_MODE chooses:
//   plan     prints the plan, asks the request's questions, asks once more, and only then writes
//            .aiwg/ops/runs/<mission>/<id>/plan.json. Without a terminal nobody can agree: the plan is printed, not written.
//   assess   runs the request's checks; the same workspace always gives the same report. Writes nothing.
//
// Exit codes: 0 done · 1 a check failed · 2 the request is invalid · 3 declined · 4 cannot write · 5 a question without a
// default and nobody there to answer · 64 wrong usage. The request's format: request.schema.json beside this file.
//
// No dependency, no network, no clock in what it reports; no path leaves the workspace and none goes through a symlink.

import { createHash } from 'node:crypto'
import fs from 'node:fs'
import { createInterface } from 'node:readline'

const REQUEST = 'sandbox-agent-runner/request/1'
const RUNS = '.aiwg/ops/runs'
const EXIT = { done: 0, checkFailed: 1, invalid: 2, declined: 3, cannotWrite: 4, unanswered: 5, usage: 64 }
const REQUEST_MAX_BYTES = 256 * 1024
const SEARCH_MAX_BYTES = 16 * 1024 * 1024 // a file that is searched or parsed is held in memory
const WALK_MAX_ENTRIES = 100_000
const ATTEMPTS_MAX = 3

class Stop extends Error {
  constructor(code, ...lines) {
    super(lines.join('\n'))
    this.code = code
  }
}

const say = (line = '') => process.stdout.write(`${line}\n`)

// ── What is a valid request? Each rule takes (value, where it stands, bad) and calls bad(where, why). ──

const CONTROL = /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/ // nothing that a terminal could obey
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

const text = (max) => (value, at, bad) => {
  if (typeof value !== 'string') return bad(at, 'must be text')
  if (value === '') return bad(at, 'must not be empty')
  const length = [...value].length // characters, as JSON Schema counts them
  if (length > max) return bad(at, `has ${length} characters, at most ${max} are allowed`)
  return CONTROL.test(value) ? bad(at, 'contains a control character') : true
}

// Keys and names of files may hold anything.
const quoted = (value) =>
  JSON.stringify(value).replace(new RegExp(CONTROL, 'g'), (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)

const matching = (pattern, why) => (value, at, bad) => {
  if (typeof value !== 'string' || !pattern.test(value)) bad(at, why)
}

const name = matching(NAME, 'must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit')

const constant = (wanted) => (value, at, bad) => {
  if (value !== wanted) bad(at, `must be \`${wanted}\``)
}

const path = (value, at, bad) => {
  if (!text(1024)(value, at, bad)) return
  if (value.startsWith('/')) bad(at, 'must be relative to the root of the workspace')
  else if (value.includes('\\')) bad(at, 'must not contain a backslash')
  else if (/(^|\/)\.{0,2}(\/|$)/.test(value)) bad(at, 'must not contain an empty, `.` or `..` step')
}

const pathOrRoot = (value, at, bad) => value === '.' || path(value, at, bad)

const integer = (value, at, bad) => {
  if (!Number.isSafeInteger(value) || value < 0) bad(at, 'must be a whole number, 0 or more')
}

const list = (rule, most) => (value, at, bad) => {
  if (!Array.isArray(value)) return bad(at, 'must be a list')
  if (value.length > most) return bad(at, `has ${value.length} entries, at most ${most} are allowed`)
  const seen = new Set()
  value.forEach((entry, index) => {
    rule(entry, `${at}[${index}]`, bad)
    if (entry?.id !== undefined && seen.has(entry.id)) bad(`${at}[${index}].id`, 'is used twice')
    seen.add(entry?.id)
  })
}

const object = (required, optional = {}) => (value, at, bad) => {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return bad(at, 'must be an object')
  const inside = (key) => (at === '' ? key : `${at}.${key}`)
  for (const key of Object.keys(required)) if (!Object.hasOwn(value, key)) bad(inside(key), 'is missing')
  for (const [key, entry] of Object.entries(value)) {
    const rule = Object.hasOwn(required, key) ? required[key] : Object.hasOwn(optional, key) ? optional[key] : undefined
    if (rule) rule(entry, inside(key), bad)
    else bad(inside(quoted(key).slice(1, -1)), 'is not known here')
  }
}

const byKind = (kinds) => (value, at, bad) => {
  const kind = value?.kind
  if (typeof kind === 'string' && Object.hasOwn(kinds, kind)) kinds[kind](value, at, bad)
  else bad(`${at}.kind`, `must be one of ${Object.keys(kinds).join(', ')}`)
}

const kind = () => {} // `byKind` has read it already
const asked = { id: name, kind, ask: text(500) }

const question = byKind({
  'yes-no': object(asked, { default: matching(/^(yes|no)$/, 'must be `yes` or `no`') }),
  choice: (value, at, bad) => {
    object({ ...asked, choices: list(text(100), 20) }, { default: text(100) })(value, at, bad)
    const { choices, default: fallback } = value
    if (!Array.isArray(choices)) return
    if (choices.length < 2) bad(`${at}.choices`, 'needs two entries at least')
    if (fallback !== undefined && !choices.includes(fallback)) bad(`${at}.default`, 'must be one of the choices')
  },
  text: object(asked, { default: text(500) }),
})

const checked = { id: name, kind, path }

const check = byKind({
  'file-exists': object(checked),
  'file-contains': object({ ...checked, text: text(2000) }),
  'json-valid': object(checked),
  'max-size': object({ ...checked, bytes: integer }),
  'no-symlinks': object({ ...checked, path: pathOrRoot }),
  digest: object({ ...checked, sha256: matching(/^[0-9a-f]{64}$/, 'must be 64 lower-case hexadecimal digits') }),
})

const step = object({ title: text(200) }, { detail: text(2000), writes: list(path, 100) })

const request = object(
  { schema: constant(REQUEST), id: name, mission: name, objective: text(2000) },
  { steps: list(step, 100), questions: list(question, 20), checks: list(check, 200) },
)

function problemsOf(value, mode) {
  const found = []
  request(value, '', (at, why) => void found.push(`\`${at || 'request'}\` ${why}`))
  const needed = mode === 'plan' ? 'steps' : 'checks'
  if (found.length === 0 && !value[needed]?.length) found.push(`\`${needed}\` needs one entry at least in ${mode} mode`)
  return found
}

// ── The workspace: every path is walked step by step, so that no symlink is followed. ──

const CAUSES = { ENOENT: 'it does not exist', ENOTDIR: 'a step of it is no folder', EACCES: 'permission denied' }
const cause = (error) => CAUSES[error.code] ?? error.message

function refuseSymlinks(relative) {
  const steps = relative.split('/')
  for (let depth = 1; depth <= steps.length; depth += 1) {
    const here = steps.slice(0, depth).join('/')
    if (fs.lstatSync(here).isSymbolicLink()) throw new Error(`\`${here}\` is a symlink`)
  }
}

function withFile(relative, use) {
  refuseSymlinks(relative)
  const fd = fs.openSync(relative, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK)
  try {
    const stat = fs.fstatSync(fd)
    if (!stat.isFile()) throw new Error('it is no regular file')
    return use({ fd, size: stat.size })
  } finally {
    fs.closeSync(fd)
  }
}

function readText(relative, maxBytes) {
  return withFile(relative, ({ fd, size }) => {
    if (size > maxBytes) throw new Error(`it has ${size} bytes, at most ${maxBytes} are read`)
    const bytes = fs.readFileSync(fd)
    try {
      return { bytes, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
    } catch {
      throw new Error('it is not UTF-8')
    }
  })
}

function digestOf(relative) {
  return withFile(relative, ({ fd }) => {
    const hash = createHash('sha256')
    const block = Buffer.alloc(1024 * 1024)
    for (let got; (got = fs.readSync(fd, block)) > 0; ) hash.update(block.subarray(0, got))
    return hash.digest('hex')
  })
}

function firstSymlink(top) {
  refuseSymlinks(top)
  const waiting = fs.lstatSync(top).isDirectory() ? [top] : []
  for (let here, entries = 0; (here = waiting.pop()) !== undefined; ) {
    for (const entry of fs.readdirSync(here, { withFileTypes: true })) {
      if ((entries += 1) > WALK_MAX_ENTRIES) throw new Error(`it holds more than ${WALK_MAX_ENTRIES} entries`)
      const inside = here === '.' ? entry.name : `${here}/${entry.name}`
      if (entry.isSymbolicLink()) return inside
      if (entry.isDirectory()) waiting.push(inside)
    }
  }
  return null
}

// ── assess ──

// What is wrong, or nothing.
const CHECKS = {
  'file-exists': ({ path }) => withFile(path, () => undefined),
  'file-contains': ({ path, text }) =>
    readText(path, SEARCH_MAX_BYTES).text.includes(text) ? undefined : 'the text is not in it',
  'json-valid': ({ path }) => {
    try {
      JSON.parse(readText(path, SEARCH_MAX_BYTES).text)
    } catch (error) {
      if (error instanceof SyntaxError) return 'it is no JSON'
      throw error
    }
  },
  'max-size': ({ path, bytes }) =>
    withFile(path, ({ size }) => (size > bytes ? `it has ${size} bytes, at most ${bytes} are allowed` : undefined)),
  'no-symlinks': ({ path }) => {
    const found = firstSymlink(path)
    return found === null ? undefined : `${quoted(found)} is a symlink`
  },
  digest: ({ path, sha256 }) => {
    const actual = digestOf(path)
    return actual === sha256 ? undefined : `its SHA-256 is ${actual}`
  },
}

function assess({ mission, id, checks }) {
  say(`Assess ${mission}/${id}: ${checks.length} checks`)
  const results = checks.map((check) => {
    let why
    try {
      why = CHECKS[check.kind](check)
    } catch (error) {
      why = cause(error)
    }
    say(`  ${why ? 'FAIL' : 'ok  '} ${check.id}: ${check.kind} ${check.path}${why ? `: ${why}` : ''}`)
    return { id: check.id, kind: check.kind, path: check.path, passed: !why, ...(why && { why }) }
  })
  const failed = results.filter((result) => !result.passed).length
  const counts = { passed: results.length - failed, failed }
  say(`${counts.passed} passed, ${counts.failed} failed`)
  say(JSON.stringify({ schema: 'sandbox-agent-runner/report/1', mission, id, ...counts, checks: results }))
  return failed ? EXIT.checkFailed : EXIT.done
}

// ── plan ──

// Consent must come from somebody who saw the plan, so what comes down a pipe is no answer.
const isAttended = () => process.stdin.isTTY && process.stdout.isTTY

const YES_NO = { yes: '[Y/n]', no: '[y/N]', undefined: '[y/n]' }

const promptOf = ({ kind, ask, default: fallback, choices }) => {
  if (kind === 'yes-no') return `${ask} ${YES_NO[fallback]} `
  const shown = fallback === undefined ? '' : ` [${fallback}]`
  return kind === 'choice' ? `${ask} (${choices.join('/')})${shown} ` : `${ask}${shown}: `
}

// The answer, or undefined when the line is none.
function understood({ kind, default: fallback, choices }, line) {
  const answer = line.trim()
  if (answer === '') return fallback
  if (kind === 'yes-no') return /^y(es)?$/i.test(answer) ? 'yes' : /^no?$/i.test(answer) ? 'no' : undefined
  if (kind === 'choice') return choices.find((choice) => choice.toLowerCase() === answer.toLowerCase())
  return answer
}

async function withPerson(use) {
  const lines = createInterface({ input: process.stdin, output: process.stdout })
  const left = new Promise((_, reject) => {
    lines.on('close', () => reject(new Stop(EXIT.unanswered, 'cannot go on: the terminal was closed before the answer')))
    lines.on('SIGINT', () => reject(new Stop(EXIT.declined, 'Declined: interrupted, nothing was written.')))
  })
  left.catch(() => {}) // `close` also comes at the normal end
  const line = (prompt) => Promise.race([new Promise((resolve) => lines.question(prompt, resolve)), left])
  try {
    return await use(async (question) => {
      for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
        const answer = understood(question, await line(promptOf(question)))
        if (answer !== undefined) return answer
        say(question.kind === 'yes-no' ? 'Please answer y or n.' : 'Please choose one of the answers shown.')
      }
      throw new Stop(EXIT.declined, `Declined: no answer to \`${question.id}\` in ${ATTEMPTS_MAX} attempts, nothing was written.`)
    })
  } finally {
    lines.close()
  }
}

function byDefault(question) {
  if (question.default !== undefined) return question.default
  throw new Stop(EXIT.unanswered, `cannot answer \`${question.id}\`: it has no default and there is no terminal to ask on`)
}

async function plan(request, origin) {
  const { mission, id, objective, steps, questions = [], checks = [] } = request
  say(`Plan ${mission}/${id}`)
  say(`Objective: ${objective}`)
  steps.forEach(({ title, detail, writes = [] }, index) => {
    say(`  ${index + 1}. ${title}`)
    if (detail) say(`     ${detail}`)
    if (writes.length) say(`     would write: ${writes.join(', ')}`)
  })
  say(checks.length ? `An assess run will make ${checks.length} checks.` : 'There is no check for an assess run to make.')

  const answersFrom = async (answer) => {
    const answers = []
    for (const { id, ask, ...rest } of questions) answers.push({ id, ask, answer: await answer({ id, ask, ...rest }) })
    return answers
  }
  if (!isAttended()) {
    for (const { ask, answer } of await answersFrom(byDefault)) say(`${ask} ${answer} (by default)`)
    say('Not written: there is no terminal to ask on.')
    return EXIT.done
  }
  return withPerson(async (ask) => {
    const answers = await answersFrom(ask)
    const agreed = await ask({ id: 'write', kind: 'yes-no', ask: `Write the plan to ${RUNS}?`, default: 'no' })
    if (agreed !== 'yes') throw new Stop(EXIT.declined, 'Declined: nothing was written.')
    const { AIWG_A2A_TASK_ID: task_id, AIWG_A2A_INSTANCE_ID: instance_id } = process.env
    const head = { schema: 'sandbox-agent-runner/plan/1', mission, id, task_id, instance_id, request: origin }
    write(`${RUNS}/${mission}/${id}`, 'plan.json', { ...head, objective, steps, answers, checks })
    return EXIT.done
  })
}

function makeFolder(relative) {
  try {
    fs.mkdirSync(relative)
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
    if (!fs.lstatSync(relative).isDirectory()) throw new Error(`\`${relative}\` is no folder`) // a symlink is none either
  }
}

function write(folder, file, value) {
  const target = `${folder}/${file}`
  const draft = `${folder}/.${file}.${process.pid}`
  const bytes = Buffer.from(`${JSON.stringify(value, null, 2)}\n`)
  try {
    folder.split('/').forEach((_, index, steps) => makeFolder(steps.slice(0, index + 1).join('/')))
    const fd = fs.openSync(draft, 'wx', 0o644) // `x`: never through a link that somebody left there
    try {
      fs.writeFileSync(fd, bytes)
      fs.fsyncSync(fd)
      fs.renameSync(draft, target) // readers see the old plan or the new one, never half of one
    } catch (error) {
      fs.rmSync(draft, { force: true })
      throw error
    } finally {
      fs.closeSync(fd)
    }
  } catch (error) {
    throw new Stop(EXIT.cannotWrite, `cannot write \`${target}\`: ${cause(error)}`)
  }
  say(`Wrote ${target} (${bytes.length} bytes, sha256 ${createHash('sha256').update(bytes).digest('hex')})`)
}

// ── main ──

function load(argv, mode) {
  if (argv.length !== 2 || argv[0] !== '--request') throw new Stop(EXIT.usage, 'usage: node runner.mjs --request <file>')
  if (!['plan', 'assess'].includes(mode)) {
    throw new Stop(EXIT.usage, 'cannot start: AIWG_A2A_ADAPTER_MODE must be `plan` or `assess`')
  }
  const file = argv[1]
  const refuse = (...why) => {
    throw new Stop(EXIT.invalid, ...why.map((line) => `cannot use ${quoted(file)}: ${line}`))
  }
  path(file, 'path', (_, why) => refuse(`its path ${why}`))
  let value, bytes
  try {
    const read = readText(file, REQUEST_MAX_BYTES)
    bytes = read.bytes
    value = JSON.parse(read.text)
  } catch (error) {
    refuse(error instanceof SyntaxError ? 'it is no JSON' : cause(error))
  }
  const problems = problemsOf(value, mode)
  if (problems.length) refuse(...problems)
  return { request: value, origin: { path: file, sha256: createHash('sha256').update(bytes).digest('hex') } }
}

try {
  const mode = process.env.AIWG_A2A_ADAPTER_MODE
  const { request, origin } = load(process.argv.slice(2), mode)
  process.exitCode = mode === 'plan' ? await plan(request, origin) : assess(request)
} catch (error) {
  if (!(error instanceof Stop)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = error.code
}
