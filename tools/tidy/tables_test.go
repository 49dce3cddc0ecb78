package tidy

// module is the prefix of every import of our own packages.
const module = "github.com/tenderhq/tender"

// A floor says which of our packages a package may import. In a list of packages "x/..." is x and everything below it,
// "..." is everything, and "!x" excludes x again. If several rows match a package, only the most specific one counts.
type floor struct{ pkg, may string }

// values are packages of plain values, which every floor above them may use.
const values = "api internal/alarms internal/protocol internal/invariant internal/trust/rights internal/value internal/wallclock internal/words internal/work "

// shell is what master, agent and framework may each import. They never import each other.
const shell = values + "api/v1 internal/wire internal/lookout internal/version internal/pause internal/watchdog internal/allowance internal/strangers internal/datafolder internal/logging internal/trust internal/trust/transport internal/trust/joining internal/trust/nearby internal/direct "

// public is what a user of Tender may import.
const public = "api api/v1 allocator/... client framework/... "

// storeys is the picture in section 2 of docs/architecture.md, from the roof down. What stands on a storey imports only
// what stands lower; its neighbours on the same storey it never imports.
var storeys = [][]storeyRoom{
	{{"main.go", "."}, {"tools", "tools/..."}},
	{{"examples", "examples/..."}},
	{{"tender", "tender/..."}},
	{{"framework/frameworktest", "framework/frameworktest/..."}},
	{{"internal/mesos", "internal/mesos/..."}, {"internal/testing", "internal/testing/..."}, {"agent/commands", "agent/commands/..."}},
	{{"master", "master/..."}, {"agent", "agent/..."}, {"framework", "framework/..."}},
	{{"internal/web", "internal/web"}},
	{{"client", "client"}, {"allocator", "allocator/..."}},
	{{"internal", "internal/..."}},
	{{"api", "api/..."}},
}

// storeyRoom is some packages of a storey; where a package matches several, the longest pattern counts.
type storeyRoom struct{ name, holds string }

// floors says the same for each package, and more closely: imports point only downwards.
var floors = []floor{
	// Leaves.
	{"api", ""},
	{"api/v1", ""},
	{"internal/alarms", ""},
	{"internal/wallclock", ""},
	{"internal/allowance", ""},
	{"internal/calendar", ""},
	{"internal/logging", ""},
	{"internal/datafolder", ""},
	{"internal/execpath", ""},
	{"internal/invariant", ""},
	{"internal/heap", ""},
	{"internal/pause", ""},
	{"internal/strangers", ""},
	{"internal/value", ""},
	{"internal/version", ""},
	{"internal/watchdog", ""},
	{"internal/words", ""},

	// Shared values, and their forms on the wire, on disk and in transcripts.
	{"internal/protocol", "api"},
	{"internal/lookout/leadersearch", "api internal/protocol"},
	{"internal/trust/rights", "api internal/protocol internal/words"},
	{"internal/logpb", "api/v1"},
	{"internal/mesos/v1/...", "internal/mesos/v1/..."},
	{"internal/mesos", ""},
	{"internal/mesos/codec", ""},
	{"internal/mesos/envelope", "internal/mesos/v1"},
	{"internal/wire", "api api/v1 internal/protocol internal/trust/rights"},
	{"internal/lookout", "api api/v1 internal/lookout/leadersearch internal/wire internal/pause internal/protocol"},
	{"internal/sandbox", "api internal/trust"},
	{"internal/frames", "api internal/trust"},
	{"internal/web", "api api/v1 client internal/calendar internal/frames internal/pause internal/sandbox internal/wire internal/words"},
	{"internal/health", "api"},
	{"internal/trust", "api"},
	{"internal/trust/transport", "internal/trust"},
	{"internal/direct", "api api/v1 internal/wire"},
	{"internal/trust/audit", "api"},
	{"internal/trust/ticket", "api internal/trust/rights internal/trust"},
	{"internal/trust/nearby", "api internal/trust"},
	{"internal/trust/joining", "api api/v1 internal/lookout internal/pause internal/trust/transport internal/trust internal/wire"},

	// The pure ones.
	{"allocator/...", values + "allocator/... !allocator/allocatortest !allocator/remote !allocator/journal !allocator/internal/codec"},
	{"master/registry/...", values + "master/registry/..."},
	{"master/quorum", "api internal/protocol"},
	{"master/view", values + "master/registry/... allocator"},
	{"master/change", "api master/view"},
	{"master/core/...", values + "master/core/... master/change master/view master/registry/... allocator/... !allocator/allocatortest !allocator/remote !allocator/journal"},
	{"agent/core/...", values + "agent/core/..."},
	{"framework/internal/core", values + "internal/lookout/leadersearch"},
	{"internal/work", "api"},
	{"framework/jobs", "api framework/jobs/internal/rules internal/work"},
	{"internal/verify", "api"},
	{"internal/verify/views", "api api/v1 internal/verify internal/wire"},
	{"framework/jobs/internal/rules", ""},
	{"framework/internal/jobs/core", values + "framework/jobs internal/work"},
	{"framework/internal/jobs/keeper", values + "framework/jobs framework/pack framework/internal/jobs/core internal/work"},

	// Beside the pure packages: a test suite for allocators, which knows none of them, and an allocator in another
	// process.
	{"allocator/allocatortest", values + "allocator allocator/constraint allocator/inputs"},
	{"allocator/internal/codec", values + "api/v1 internal/version internal/wire allocator allocator/inputs"},
	{"allocator/remote", shell + "allocator allocator/inputs allocator/internal/codec"},
	{"allocator/journal", shell + "internal/logpb allocator allocator/inputs allocator/internal/codec"},

	// Shells.
	{"master/...", shell + "internal/trust/audit internal/trust/ticket internal/web allocator/... !allocator/allocatortest master/..."},
	{"master/internal/registrycodec", "api internal/logpb internal/trust/rights internal/wire master/registry/..."},
	{"master/internal/registrar", "api api/v1 internal/protocol internal/trust/rights internal/trust/transport internal/trust internal/wire master/registry"},
	{"master/internal/intake", "api api/v1 internal/allowance internal/pause internal/protocol internal/strangers internal/wire allocator/constraint"},
	{"master/internal/outbox", "api"},
	{"master/history", "api/v1 internal/datafolder internal/wallclock internal/wire"},
	{"master/internal/raftlog", shell + "internal/logpb master/internal/logcache master/internal/registrycodec master/quorum master/registry"},
	{"master/internal/logcache", ""},
	{"master/internal/statehash", "api/v1 internal/pause master/registry"},
	{"agent/...", shell + "internal/execpath internal/frames internal/trust/audit internal/trust/ticket agent/..."},
	{"agent/walls/cell", "api agent/proc agent/walls/birth internal/datafolder internal/pause"}, // files of the kernel, for the agent and the built-in executor
	{"agent/walls/entry", "api agent/proc"},
	{"agent/walls/birth", ""},
	{"agent/walls/calls", ""},
	{"agent/walls/paths", ""},
	{"agent/walls/spaces", "internal/execpath agent/proc agent/walls/birth agent/walls/calls"}, // the first process of each task
	{"agent/images/setup", "agent/beneath agent/walls/entry"},                                  // between the agent and the built-in executor
	{"agent/membership", "api internal/trust/joining internal/trust"},
	{"agent/life", "agent/core"},
	{"agent/files", "api internal/sandbox"}, // a page of a folder as they read it who ask
	{"agent/checkpoint", shell + "internal/logpb agent/core"},
	{"client", shell + "internal/lookout/leadersearch"},
	{"framework/...", shell + "internal/sandbox internal/health framework/... !framework/frameworktest"},

	// The built-in executor: a user of the executors' SDK.
	{"agent/commands", values + "internal/datafolder internal/execpath framework/executor agent/beneath agent/images/setup agent/proc agent/tail agent/walls/birth agent/walls/cell agent/walls/entry agent/walls/paths agent/walls/spaces"},

	// What runs executors for Mesos: a user of the executors' SDK, which fetches as agents do.
	{"internal/mesos/check", "internal/mesos/..."},
	{"internal/mesos/translate", "api internal/mesos internal/mesos/codec internal/mesos/envelope internal/mesos/v1/..."},
	{"internal/mesos/gateway", "api framework framework/pack internal/mesos internal/mesos/..."},
	{"internal/mesos/adapter", "api internal/execpath internal/protocol framework/executor agent/fetch internal/mesos internal/mesos/..."},

	// What tools of Mesos ask its masters, answered by a client of the cluster.
	{"internal/mesos/operator", "api api/v1 client internal/frames internal/logging internal/sandbox internal/wire internal/mesos internal/mesos/..."},

	// The terminals of Mesos's tasks, to which people's commands inside the tasks attach.
	{"internal/mesos/terminal", "internal/frames internal/pause"},

	// Whole clusters in memory.
	{"framework/frameworktest", shell + "client internal/verify/... internal/testing/chaos internal/testing/memnet allocator/... master/... agent/... framework/..."},

	// What tests.
	{"internal/testing/chaos", ""},
	{"internal/testing/clock", ""},
	{"internal/testing/freeports", ""},
	{"internal/testing/hang", ""},
	{"internal/testing/history", ""},
	{"internal/testing/machine", ""},
	{"internal/testing/mounts", ""},
	{"internal/testing/memnet", ""},
	{"internal/testing/platter", ""},
	{"internal/testing/oci", ""},
	{"internal/testing/processor", ""},
	{"internal/testing/program", ""},
	{"internal/testing/routes", ""},
	{"internal/testing/testlog", ""},
	{"internal/testing/transcript", ""},
	{"internal/testing/witness", shell + "client"},
	{"framework/frameworktest/internal/sim", values + "api/v1 internal/testing/chaos internal/testing/clock internal/verify internal/wire allocator master/core master/core/settings master/view master/registry agent/core agent/life agent/checkpoint framework/jobs framework/internal/core framework/internal/jobs/..."}, // the cores joined, and nothing else real
	{"internal/testing/clerks", "api framework internal/testing/history"},

	// What develops.
	{"tools/bench/...", "... !examples/... !tender/internal/cli/... !tools/demo"},
	{"tools/chaos", public + "agent/walls/cell tools/devcluster internal/trust/joining internal/testing/chaos internal/testing/clerks internal/testing/freeports internal/testing/history internal/trust/transport internal/trust"}, // runs the binary, and schedulers of its own
	{"tools/cost", ""}, // runs benchmarks and reads their counters
	{"tools/demo", "api/v1 tools/devcluster internal/pause"},
	{"tools/devcluster", "internal/trust/joining internal/trust/nearby internal/trust/transport internal/trust"}, // runs the binary, and reaches its masters
	{"tools/exported", ""}, // reads sources, compiles nothing
	{"tools/loopback", ""}, // knows addresses only
	{"tools/mutants", ""},  // changes sources, knows nothing of them
	{"tools/release", ""},  // builds and packs the program
	{"tools/stress", ""},   // runs the tests, knows nothing of them
	{"tools/tidy", ""},     // reads sources

	// Programs.
	{"tender", "tender/internal/cli"}, // the door for mains of others
	{"examples/...", public + "tender examples/... !framework/frameworktest !allocator/allocatortest"},
	{"tender/internal/cli/...", shell + "internal/trust/audit internal/lookout/leadersearch internal/calendar internal/trust/ticket internal/frames internal/sandbox internal/web client internal/logging internal/heap internal/mesos/adapter internal/mesos/check internal/mesos/gateway internal/mesos/operator internal/mesos/terminal internal/mesos/translate agent/commands internal/verify/... internal/testing/chaos allocator/... !allocator/allocatortest master/... agent/... framework/... !framework/frameworktest tender/internal/cli/..."},
	{".", "tender"},
}

// pure packages only make decisions: the same events give the same effects, byte for byte. The packages of values that
// they use are pure too. Left out are the test suite, which needs package testing, the remote allocator, which does
// I/O, and the journal and their codec, which use protobuf.
const pure = "api internal/alarms internal/wallclock internal/lookout/leadersearch internal/protocol internal/trust/rights internal/words master/core/... master/change master/quorum master/view master/registry/... agent/core/... framework/internal/core " +
	"framework/jobs framework/internal/jobs/... framework/pack framework/jobs/internal/rules internal/work internal/verify examples/rdd/plan allocator/... !allocator/allocatortest !allocator/remote !allocator/journal !allocator/internal/codec"

// pureImports is what a pure package may import from elsewhere: packages that compute. None of them reads a clock,
// starts a goroutine, holds a lock or does I/O, except the names in impure.
const pureImports = "bytes cel.dev/cel-go/cel cel.dev/cel-go/common/ast cel.dev/cel-go/common/types cel.dev/cel-go/common/types/ref cel.dev/cel-go/ext " +
	"cmp container/heap container/list container/ring crypto/hmac crypto/sha256 encoding encoding/base64 " +
	"encoding/binary encoding/hex encoding/json errors fmt hash hash/crc32 hash/fnv hash/maphash iter maps math math/big math/bits " +
	"math/rand/v2 path reflect regexp slices sort strconv strings sync text/tabwriter time unicode unicode/utf8 unique"

// impure are the names in pureImports that a pure package must not use.
var impure = map[string]names{
	"fmt":          {ban: "Print Printf Println Scan Scanf Scanln"},
	"hash/maphash": {ban: "MakeSeed Comparable"},
	"sync":         {only: "OnceValue"}, // a value that is computed when it is first needed
	"math/rand/v2": {only: "New NewPCG NewChaCha8 NewZipf Rand Source PCG ChaCha8 Zipf"},
	"time":         {ban: "Now Since Until Sleep After AfterFunc Tick Ticker NewTicker Timer NewTimer Local LoadLocation"},
}

// names of a package: all except some, or only some.
type names struct{ ban, only string }

// programs are the packages that may read flags and the environment and end the process. Tests may too. The spawner of
// tasks' namespaces is one of them, because the agent's program runs it under another name.
const programs = ". tender/internal/cli/... tools/demo tools/bench tools/chaos tools/exported " +
	"tools/stress tools/mutants tools/cost tools/release agent/walls/spaces"

// exampleMains are programs as well, but only in their package main.
const exampleMains = "examples/..."

// process holds the names with which a package reads flags and the environment, takes signals, or ends the process; ""
// stands for every name of the package.
var process = map[string]string{
	"flag":                   "",
	"github.com/spf13/cobra": "",
	"github.com/spf13/pflag": "",
	"os":                     "Args Clearenv Environ Exit Expand ExpandEnv Getenv LookupEnv Setenv Unsetenv",
	"os/signal":              "",
	"syscall":                "Clearenv Environ Exit Getenv Setenv Unsetenv",
}

// processAllowed holds the exceptions, each with its reason.
var processAllowed = map[string]string{
	"framework":          "LookupEnv",        // TENDER_TOKEN: what lets a framework in stands in no program's text
	"client":             "LookupEnv",        // TENDER_TOKEN, as for a framework
	"framework/executor": "Getenv LookupEnv", // the agent speaks to it by TENDER_EXECUTOR_* (R33)
}

// wall is the limit of the SDK: through all of our packages, a program that imports one of sdk gets no third-party
// package except these.
const (
	sdk  = "api api/v1 client framework/... !framework/frameworktest/..."
	wall = "google.golang.org/grpc/... google.golang.org/protobuf/..."
)

// fileLinesMax is the number of lines beyond which a file surely holds more than one noun.
const fileLinesMax = 600

// An allowance is the size of a part that is larger than allowed, and why it is still one part.
type allowance struct {
	count int
	why   string
}

// larger holds the parts that partsAreSmall accepts, by what it counts. What a struct embeds counts with it.
var larger = map[string]allowance{
	// Settings: each field is one setting, and none of them is a state.
	"fields of agent.Config":                   {43, "settings of an agent, most of them flags, embedded by subject"},
	"fields of framework.Config":               {23, "settings of a scheduler"},
	"bools of framework.Config":                {4, "settings of a scheduler"},
	"fields of framework/jobs.Task":            {30, "each is one key of a job file"},
	"fields of framework/taskset.Config":       {21, "settings of a set"},
	"fields of master/view.Agent":              {21, "each is something that is shown of an agent"},
	"fields of tender/internal/cli.agentFlags": {22, "flags of tender agent"},
	"fields of tender/internal/cli.runFlags":   {33, "flags of tender run"},
	"bools of tender/internal/cli.runFlags":    {4, "flags of tender run"},
	"bools of tender/internal/cli.devFlags":    {6, "flags of tender dev"},
	"bools of tender/internal/cli/dev.Config":  {4, "settings of a cluster on one machine"},
	"fields of tender/internal/cli/run.Config": {21, "settings of a run"},
	"fields of master.Config":                  {24, "settings of a master, most of them flags"},

	// Messages and records: each field is one thing that is said or kept, and none follows from another.
	"bools of agent/walls/cell.Handout":   {5, "what an agent tells its executor, once"},
	"bools of framework/taskset.keptRoll": {4, "what the store has of a rolling change"},
	"fields of api.Status":                {23, "all that is said of a task"},
	"fields of master/registry.State":     {25, "one map for each noun, and the counters"},

	// Nouns of a core: what they embed belongs to different rooms, each of which writes its own part alone.
	"fields of agent/core.task":                        {24, "four parts: the launch, what is not acknowledged, what is there of it, how far its kill has come"},
	"bools of agent/core.task":                         {4, "of different parts"},
	"fields of framework/internal/jobs/core.subJob":    {22, "three parts of its own: indexes, queue, counts; each writes its own part alone"},
	"fields of framework/taskset.item":                 {22, "the piece of work as its author says it, and what has become of it"},
	"fields of master/core.agent":                      {44, "seven parts, each of one room; no room writes another's"},
	"fields of master/core.framework":                  {21, "one part is its place in the line of standbys"},
	"fields of master/core.session":                    {27, "three parts, each of one room"},
	"bools of master/core.session":                     {4, "of different parts"},
	"fields of allocator/engine/internal/books.Books":  {38, "five parts with a file each: fleet, membership, tree, gates, wishes"},
	"fields of allocator/engine/internal/books.Member": {23, "one cache line after the other: what a walk over all members needs lies together"},
	"bools of allocator/engine/internal/books.Member":  {7, "of three parts: may it be offered something, does it let others go first, was it noted"},
	"bools of allocator/engine/internal/books.Agent":   {6, "of two parts: what state it is in, why it has to be looked at"},
	"fields of allocator/engine/internal/books.Role":   {23, "an operator's words, the limit, and sums over the subtree"},
	"bools of allocator/engine/internal/books.Role":    {5, "of two parts: the limit, and what has to be looked at"},

	// Shells: what is theirs alone, what wakes them, and what any goroutine may ask, in three parts.
	"fields of examples/rdd.Context": {21, "the driver, and the executors that it has"},

	// One bool for each of several things, which are not the states of one thing.
	"bools of internal/trust.Door":    {4, "each is one rule about who comes in, and a listener has those that it needs"},
	"bools of master/registry.shared": {6, "one for each map of a registry: whether a clone has it too"},

	// What reads better as functions than as methods.
	"functions that take allocator/allocatortest.Cluster": {11, "each is one story that a policy is held against, and the suite lists them"},

	// What stories use.
	"fields of allocator/allocatortest.Cluster": {21, "the ledger that a policy is held against, and what its stories look at"},

	// Models for tests: what they pretend is set bit by bit, and nothing outside depends on it.
	"bools of internal/testing/memnet.pipe":                    {4, "the faults of one direction, which come together in any way"},
	"bools of framework/frameworktest/internal/sim.daemon":     {4, "a model of an agent's shell"},
	"bools of framework/frameworktest/internal/sim.machine":    {5, "a model of a node and what is wrong with it"},
	"fields of framework/frameworktest/internal/sim.machine":   {21, "a model of a node and what is wrong with it"},
	"fields of framework/frameworktest/internal/sim.scheduler": {25, "a model of a scheduler's shell, what it has said of itself, and how it writes into its store"},
	"bools of framework/frameworktest/internal/sim.process":    {7, "a model of an executor's process"},
	"bools of framework/frameworktest/internal/sim.quorum":     {5, "a model of masters, what is wrong with them, and whether their snapshots may be restored"},
	"bools of framework/frameworktest/internal/sim.work":       {7, "what the scheduler's user does and leaves, drawn by the seed"},
}
