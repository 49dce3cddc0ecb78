package api

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Check reports why t can never be started, or nil. A task that fails this check ends ERROR (TASK_INVALID), whichever
// offer it names. Programs that take tasks from others should call it first.
func (t *Task) Check() error {
	if err := CheckID("task ID", string(t.ID)); err != nil {
		return err
	}
	if t.Resources.IsZero() {
		return fmt.Errorf("the task asks for no resources; it must ask for some, such as cpus:0.1")
	}
	if err := t.Resources.Check(); err != nil {
		return err
	}
	if err := t.checkExecutor(); err != nil {
		return err
	}
	if err := t.checkRevocable(); err != nil {
		return err
	}
	if err := t.checkGPUs(); err != nil {
		return err
	}
	if err := checkDuration("kill grace", t.KillGrace); err != nil {
		return err
	}
	if t.KillSignal != "" && !slices.Contains(killSignals, t.KillSignal) {
		return fmt.Errorf("kill signal %q is none; write one of %s", t.KillSignal, strings.Join(killSignals, ", "))
	}
	if err := checkDuration("max completion time", t.MaxCompletionTime); err != nil {
		return err
	}
	if err := t.checkLimits(); err != nil {
		return err
	}
	if err := checkWords("labels", t.Labels); err != nil {
		return err
	}
	if err := t.checkPorts(); err != nil {
		return err
	}
	if err := t.checkChecks(); err != nil {
		return err
	}
	if err := checkGroup(t.Group); err != nil {
		return err
	}
	if err := t.checkOwner(); err != nil {
		return err
	}
	if err := t.checkSecrets(); err != nil {
		return err
	}
	if !utf8.ValidString(t.Name) {
		return fmt.Errorf("name %q is not UTF-8", t.Name)
	}
	if size := t.Bytes(); size > TaskBytesMax {
		return fmt.Errorf("the task has %d bytes with its command, environment and data, at most %d are allowed; "+
			"bring more by a URI", size, TaskBytesMax)
	}
	return nil
}

// killSignals are the signals that may ask a task to end. SIGKILL is not one of them: it leaves nothing to ask.
var killSignals = []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH"}

// Check reports why s can't be part of a demand, or nil. It does not judge the constraint; only a master can.
func (s *Shape) Check() error {
	if err := s.Resources.Check(); err != nil {
		return err
	}
	if s.Resources.IsZero() || s.Count < 1 {
		return fmt.Errorf("%d times %v is wanted; it must be at least one of something", s.Count, s.Resources)
	}
	if len(s.Spread) > SpreadsMax {
		return fmt.Errorf("it is spread over %d kinds of places, at most %d are allowed", len(s.Spread), SpreadsMax)
	}
	for _, spread := range s.Spread {
		if err := spread.Check(); err != nil {
			return err
		}
	}
	return checkGroup(s.Group)
}

func checkGroup(group string) error {
	if group == "" {
		return nil
	}
	return CheckID("group", group)
}

// checkOwner refuses an owner of a task that shares its executor, and so its user, with tasks of others.
func (t *Task) checkOwner() error {
	switch {
	case t.Owner == "":
		return nil
	case t.Executor != nil:
		return fmt.Errorf("the task has the owner %s and executor %s, which runs tasks of all owners as one user; only tasks of the built-in executor "+
			"have an owner", t.Owner, t.Executor.ID)
	}
	return CheckID("owner", t.Owner)
}

func (t *Task) checkExecutor() error {
	if t.Executor == nil && t.Command == nil && t.Image == "" {
		return fmt.Errorf("neither command nor executor nor image is set; set the one that runs the task")
	}
	if err := t.checkImage(); err != nil {
		return err
	}
	if t.Command != nil { // a framework's own executor may use the command as it likes
		if err := t.Command.check(t.Image != ""); err != nil {
			return err
		}
	}
	switch {
	case t.Executor == nil:
		return nil
	case t.Executor.ID == CommandExecutor:
		return fmt.Errorf("executor ID %q is the built-in one's; choose another, or leave the executor out", t.Executor.ID)
	}
	return t.Executor.Check()
}

// checkRevocable refuses tasks that mix revocable and firm resources where they must not be mixed. Of one resource a
// task asks for either a firm or a revocable amount, because a revocation kills the whole task. An executor has only
// firm resources, because it must outlive its revoked tasks.
func (t *Task) checkRevocable() error {
	for _, item := range t.Resources.Revocable().Items() {
		for _, other := range t.Resources.Items() {
			if other.Name == item.Name && !other.Revocable {
				return fmt.Errorf("the task asks for %s both firm and revocable; it can have one of them", item.Name)
			}
		}
	}
	if t.Executor != nil && t.Executor.Resources.HasRevocable() {
		return fmt.Errorf("executor %s asks for %v; only tasks can be revoked", t.Executor.ID, t.Executor.Resources.Revocable())
	}
	return nil
}

// checkGPUs refuses fractions of GPUs: each GPU is given whole to one task until that task ends. Executors get none.
func (t *Task) checkGPUs() error {
	if asked := t.Resources.Scalar(GPUs); asked%1000 != 0 {
		return fmt.Errorf("the task asks for %v GPUs; they are given whole, so ask for a whole number of them", asked)
	}
	if t.Executor != nil && t.Executor.Resources.Scalar(GPUs) != 0 {
		return fmt.Errorf("executor %s asks for GPUs itself; they are given to tasks, so ask for them there", t.Executor.ID)
	}
	return nil
}

func (t *Task) checkLimits() error {
	limits, asked := t.Limits, t.Resources.Scalar("mem")
	switch {
	case limits.CPUs < 0 || limits.CPUs > MilliMax:
		return fmt.Errorf("its limit of processors is %v; it must be 0, for none, to %v", limits.CPUs, MilliMax)
	case limits.Pids < 0 || limits.Pids > PidsMax:
		return fmt.Errorf("its limit of processes is %d; it must be 0, for what its agent allows, to %d", limits.Pids, PidsMax)
	case limits.Mem != 0 && limits.Mem < asked || limits.Mem > MilliMax:
		return fmt.Errorf("its limit of memory is %v MB; it must be 0 or not less than the %v MB that it asks for", limits.Mem, asked)
	}
	return nil
}

// Bytes estimates how many bytes t takes in a message. The estimate is never too low: it counts all texts and data, and
// a generous amount for what encodes them.
func (t *Task) Bytes() int {
	size := 56 + len(t.ID) + len(t.Name) + len(t.Data) + len(t.Group) + len(t.Image) + len(t.KillSignal) + len(t.Owner) + wordsSize(t.Labels) + t.Resources.Bytes()
	for name := range t.Ports { // order: irrelevant because a sum is made
		size += len(name) + 16
	}
	for _, d := range [...]time.Duration{t.KillGrace, t.MaxCompletionTime} {
		if d != 0 {
			size += 24
		}
	}
	if t.Placement != (Placement{}) {
		size += 64
	}
	if t.Command != nil {
		size += t.Command.bytes()
	}
	for i := range t.Checks {
		size += t.Checks[i].bytes()
	}
	for _, secret := range t.Secrets {
		size += secret.bytes()
	}
	if t.Executor != nil {
		size += t.Executor.Bytes()
	}
	return size
}

// Bytes estimates how many bytes e takes in a message; the estimate is never too low.
func (e *Executor) Bytes() int {
	return 80 + len(e.ID) + len(e.Data) + wordsSize(e.Labels) + e.Resources.Bytes() + e.Command.bytes()
}

// Check reports why e can't be an executor, or nil.
func (e *Executor) Check() error {
	if err := CheckID("executor ID", string(e.ID)); err != nil {
		return err
	}
	if err := e.Command.Check(); err != nil {
		return fmt.Errorf("executor %q: %w", e.ID, err)
	}
	if err := e.Resources.Check(); err != nil {
		return fmt.Errorf("executor %q: %w", e.ID, err)
	}
	if err := checkDuration("shutdown grace", e.ShutdownGrace); err != nil {
		return fmt.Errorf("executor %q: %w", e.ID, err)
	}
	return checkWords("labels", e.Labels)
}

// Check reports why c can't be started anywhere, or nil.
func (c *Command) Check() error { return c.check(false) }

// check is Check. imaged says that the task has an image, whose own command runs if c has none.
func (c *Command) check(imaged bool) error {
	switch {
	case len(c.Argv) == 0 && c.Shell == "" && !imaged:
		return fmt.Errorf("the command is empty; set argv, or shell for a line of /bin/sh -c")
	case len(c.Argv) > 0 && c.Shell != "":
		return fmt.Errorf("the command has both argv and shell; set one of them")
	case len(c.Argv) > 0 && c.Argv[0] == "":
		return fmt.Errorf("the first word of argv is empty; it names the program")
	}
	for _, word := range c.Argv {
		if err := checkWord("a word of argv", word); err != nil {
			return err
		}
	}
	if err := checkWord("shell", c.Shell); err != nil {
		return err
	}
	if err := c.checkEnv(); err != nil {
		return err
	}
	if err := checkUser(c.User); err != nil {
		return err
	}
	if err := checkDir(c.Dir); err != nil {
		return err
	}
	for i := range c.URIs {
		if err := c.URIs[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// userBytesMax bounds the name of a user.
const userBytesMax = 256

func checkUser(name string) error {
	switch {
	case len(name) > userBytesMax:
		return fmt.Errorf("the user's name has %d bytes; %d are the most", len(name), userBytesMax)
	case strings.ContainsAny(name, ":/ \t\n,"):
		return fmt.Errorf("%q is no user's name", name)
	}
	return checkWord("user", name)
}

// dirBytesMax bounds the path of a command's folder, as the kernel bounds paths.
const dirBytesMax = 4095

func checkDir(dir string) error {
	switch {
	case len(dir) > dirBytesMax:
		return fmt.Errorf("the path of its folder has %d bytes; %d are the most", len(dir), dirBytesMax)
	case path.Clean(dir) == ".." || strings.HasPrefix(path.Clean(dir), "../"):
		return fmt.Errorf("its folder %q leads out of the sandbox; write an absolute path, or one below the sandbox", dir)
	}
	return checkWord("dir", dir)
}

func (c *Command) checkEnv() error {
	for _, name := range sortedKeys(c.Env) {
		if name == "" || strings.Contains(name, "=") {
			return fmt.Errorf("env: name %q is empty or holds '='", name)
		}
		if err := checkWord("env: a name", name); err != nil {
			return err
		}
		if err := checkWord("env: "+name, c.Env[name]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Command) bytes() int {
	size := len(c.Shell) + len(c.User) + len(c.Dir) + wordsSize(c.Env) + 16
	for _, word := range c.Argv {
		size += len(word) + 4
	}
	for _, uri := range c.URIs {
		size += len(uri.Source) + len(uri.Name) + len(uri.SHA256) + 24
	}
	return size
}

func (u *URI) check() error {
	if u.Source == "" {
		return fmt.Errorf("a URI has no source")
	}
	for _, word := range []string{u.Source, u.Name, u.SHA256} {
		if err := checkWord("URI "+u.Redacted(), word); err != nil {
			return err
		}
	}
	if u.Name != "" {
		if err := CheckID("a URI's name in the sandbox", u.Name); err != nil {
			return err
		}
	}
	remote := strings.HasPrefix(u.Source, "http://") || strings.HasPrefix(u.Source, "https://")
	switch {
	case !remote && !strings.HasPrefix(u.Source, "/") && !strings.HasPrefix(u.Source, "file:///"):
		return fmt.Errorf("URI %s is none that an agent can find: write an absolute path of the agent's machine, or begin it with file:///, "+
			"https:// or http://", u.Redacted())
	case u.SHA256 == "" && remote:
		return fmt.Errorf("URI %s has no sha256; what comes over the network needs one", u.Redacted())
	case u.SHA256 != "" && (len(u.SHA256) != 64 || strings.Trim(u.SHA256, "0123456789abcdef") != ""):
		return fmt.Errorf("URI %s: sha256 %q is not 64 lower-case hexadecimal digits", u.Redacted(), u.SHA256)
	}
	return nil
}

// checkWord refuses text that no program can be given: text that is not UTF-8 or holds a zero byte.
func checkWord(noun, word string) error {
	if !utf8.ValidString(word) || strings.IndexByte(word, 0) >= 0 {
		return fmt.Errorf("%s is %q; it must be UTF-8 without zero bytes", noun, word)
	}
	return nil
}

func checkWords(noun string, words map[string]string) error {
	if len(words) > LabelsMax {
		return fmt.Errorf("%d %s, at most %d are allowed", len(words), noun, LabelsMax)
	}
	for _, name := range sortedKeys(words) {
		if name == "" {
			return fmt.Errorf("%s: a name is empty", noun)
		}
		if err := checkWord(noun, name); err != nil {
			return err
		}
		if err := checkWord(noun+": "+name, words[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkDuration(noun string, d time.Duration) error {
	switch {
	case d < 0:
		return fmt.Errorf("%s is %v; it must not be negative", noun, d)
	case d > DurationMax:
		return fmt.Errorf("%s is %v; at most %v is allowed", noun, d, DurationMax)
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}
