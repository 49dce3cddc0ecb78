package operator

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/translate"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	"github.com/tenderhq/tender/internal/sandbox"
)

const (
	// readBytesMax bounds how much of a file one read returns, as in Mesos: 16 pages of memory.
	readBytesMax = 16 * 4096
	// filesMax bounds the entries of a folder that are listed.
	filesMax = 10_000
	// regularMode is the mode of a regular file.
	regularMode = 0o100600
)

// directoryOf is the path by which tools find the sandbox of a task: that of its executor, as agents of Mesos lay it out.
func directoryOf(t *apiv1.TaskView) string {
	folder := runOf(t, "latest")
	if t.GetExecutorId() != string(api.CommandExecutor) {
		folder = path.Join(folder, "tasks", translate.UnescapeID(t.GetId()))
	}
	return folder
}

// runOf is the path of a run of the task's executor: the latest one, or the one in a container.
func runOf(t *apiv1.TaskView, run string) string {
	return path.Join("/slaves", t.GetAgentId(), "frameworks", t.GetFrameworkId(), "executors", executorOf(t), "runs", run)
}

// containerRunOf is the path of the run of the task's executor in its container, which statuses of the task name so.
func containerRunOf(t *apiv1.TaskView) string {
	if t.GetExecutorId() == string(api.CommandExecutor) {
		return runOf(t, path.Join(t.GetFrameworkId(), t.GetId()))
	}
	return runOf(t, strings.ReplaceAll(t.GetFrameworkId()+"."+t.GetExecutorId(), "/", "_"))
}

// findFile finds the file that a path of Mesos's layout names:
// slaves/AGENT/frameworks/FRAMEWORK/executors/EXECUTOR/runs/RUN[/tasks/TASK]/FILE. RUN is one word, or FRAMEWORK/TASK as
// containers are named. The path may have a beginning that
// tools have read elsewhere, such as the agent's working folder.
func (r request) findFile(ctx context.Context, name string) (sandbox.File, error) {
	unknown := codec.Refuse(http.StatusNotFound, "%s is no file of a task; write /slaves/AGENT/frameworks/FRAMEWORK/executors/EXECUTOR/runs/latest/FILE", name)
	words := strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	at := slices.Index(words, "slaves")
	if at < 0 || len(words) < at+8 || words[at+2] != "frameworks" || words[at+4] != "executors" || words[at+6] != "runs" {
		return sandbox.File{}, unknown
	}
	agent, framework, executor, rest := words[at+1], words[at+3], words[at+5], words[at+8:]
	if words[at+7] == framework && len(rest) > 0 {
		rest = rest[1:]
	}
	tasks, err := client.AllReported(ctx, r.cluster.Operator().ListTasks, &apiv1.ListTasksRequest{AgentId: agent, FrameworkId: framework, All: true})
	if err != nil {
		return sandbox.File{}, err
	}
	task := ""
	if len(rest) >= 2 && rest[0] == "tasks" {
		task, rest = rest[1], rest[2:]
	}
	var found *apiv1.TaskView
	for _, t := range tasks {
		if executorOf(t) == executor && (task == "" || translate.UnescapeID(t.GetId()) == task) {
			found = t // the last one is the newest
		}
	}
	if found == nil {
		return sandbox.File{}, unknown
	}
	ref := api.TaskRef{Framework: api.FrameworkID(framework), Task: api.TaskID(found.GetId())}
	ticket, _, err := r.cluster.ReadTicket(ctx, ref, api.AgentID(agent))
	return sandbox.File{
		Task: ref, Executor: task == "" && found.GetExecutorId() != string(api.CommandExecutor), Path: path.Join(rest...),
		Address: found.GetAgentAddress(), Dial: r.cluster.DialAgent, Ticket: ticket,
	}, err
}

// listFiles lists a folder, each entry with its whole path.
func (o *Operator) listFiles(r request, name string) (infos []*mesosv1.FileInfo, err error) {
	if kept, before, is, err := r.log(name); is || err != nil {
		return o.listLog(name, before+int64(len(kept))), err
	}
	ctx := r.r.Context()
	file, err := r.findFile(ctx, name)
	if err != nil {
		return nil, err
	}
	items, _, err := file.List(ctx, filesMax)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		infos = append(infos, fileInfo(path.Join(name, item.Name), item))
	}
	return infos, nil
}

func fileInfo(name string, item sandbox.Item) *mesosv1.FileInfo {
	mode, links := uint32(regularMode), int32(1)
	if item.Kind == "folder" {
		mode, links = 0o040700, 2
	}
	return &mesosv1.FileInfo{
		Path: text(name), Nlink: &links, Size: proto.Uint64(uint64(item.Bytes)), Mode: &mode,
		Mtime: &mesosv1.TimeInfo{Nanoseconds: proto.Int64(item.Modified.UnixNano())}, Uid: text("nobody"), Gid: text("nogroup"),
	}
}

// readFile reads a part of a file, and tells its size.
func (r request) readFile(name string, offset int64, length *uint64) ([]byte, int64, error) {
	most := int64(readBytesMax)
	if length != nil {
		most = int64(min(*length, readBytesMax))
	}
	if kept, before, is, err := r.log(name); err != nil {
		return nil, 0, err
	} else if is {
		return readLog(name, kept, before, offset, most)
	}
	ctx := r.r.Context()
	file, err := r.findFile(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	return file.Part(ctx, offset, most)
}

// pathOf is the path that a request names.
func pathOf(r request) (string, error) {
	name := r.r.FormValue("path")
	if name == "" {
		return "", codec.Refuse(http.StatusBadRequest, "Expecting 'path=value' in query.")
	}
	return name, nil
}

// modeText writes a mode as ls does.
func modeText(mode uint32) string {
	if mode&0o040000 != 0 {
		return "drwx------"
	}
	return "-rw-------"
}

// serveBrowse lists a folder.
func (o *Operator) serveBrowse(r request) error {
	name, err := pathOf(r)
	if err != nil {
		return err
	}
	infos, err := o.listFiles(r, name)
	if err != nil {
		return err
	}
	list := []object{}
	for _, info := range infos {
		list = append(list, object{
			"path": info.GetPath(), "nlink": info.GetNlink(), "size": info.GetSize(), "mtime": float64(info.GetMtime().GetNanoseconds() / 1e9),
			"mode": modeText(info.GetMode()), "uid": info.GetUid(), "gid": info.GetGid(),
		})
	}
	return writeJSON(r.w, list)
}

// serveRead reads a part of a file. With offset=-1 it only tells the size, by which tools find the end.
func serveRead(r request) error {
	name, err := pathOf(r)
	if err != nil {
		return err
	}
	offset := int64(-1)
	if given := r.r.FormValue("offset"); given != "" {
		if offset, err = strconv.ParseInt(given, 10, 64); err != nil || offset < -1 {
			return codec.Refuse(http.StatusBadRequest, "Failed to parse offset: %s", given)
		}
	}
	var length *uint64
	if given := r.r.FormValue("length"); given != "" && given != "-1" {
		most, err := strconv.ParseUint(given, 10, 63)
		if err != nil {
			return codec.Refuse(http.StatusBadRequest, "Failed to parse length: %s", given)
		}
		length = &most
	}
	data, size, err := r.readFile(name, offset, length)
	if err != nil {
		return err
	}
	if offset < 0 {
		offset = size
	}
	return writeJSON(r.w, object{"offset": offset, "data": string(data)})
}

// serveDownload sends a whole file.
func serveDownload(r request) error {
	name, err := pathOf(r)
	if err != nil {
		return err
	}
	attach := func() {
		r.w.Header().Set("Content-Type", "application/octet-stream")
		r.w.Header().Set("Content-Disposition", "attachment; filename="+strconv.Quote(path.Base(name)))
	}
	if kept, _, is, err := r.log(name); err != nil {
		return err
	} else if is {
		attach()
		_, _ = r.w.Write(kept) // a client that has gone needs no answer
		return nil
	}
	file, err := r.findFile(r.r.Context(), name)
	if err != nil {
		return err
	}
	attach()
	to := &sent{to: r.w}
	err = file.Copy(r.r.Context(), to)
	if err != nil && to.begun {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
	if err != nil {
		r.w.Header().Del("Content-Disposition")
	}
	return err
}

// sent remembers whether anything was written.
type sent struct {
	to    http.ResponseWriter
	begun bool
}

func (s *sent) Write(p []byte) (int, error) {
	s.begun = true
	return s.to.Write(p)
}

// serveDebug lists the sandboxes by their paths.
func serveDebug(r request) error {
	s, err := readState(r.r.Context(), r.cluster, tasks)
	if err != nil {
		return err
	}
	all := object{}
	for _, t := range s.tasks {
		if t.GetAgentId() != "" {
			for _, folder := range []string{directoryOf(t), containerRunOf(t)} {
				all[folder] = folder
			}
		}
	}
	return writeJSON(r.w, all)
}
