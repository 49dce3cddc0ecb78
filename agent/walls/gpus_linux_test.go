package walls

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
)

// machineWithGPUs makes a root with the files of NVIDIA's driver. Other devices are in the places of the GPUs.
func machineWithGPUs(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/driver/nvidia/gpus/0000:3b:00.0/information", "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-3b\nBus Location: \t 0000:3b:00.0\nDevice Minor: \t 10\n")
	write("proc/driver/nvidia/gpus/0000:af:00.0/information", "GPU UUID: \t GPU-??????-??\nDevice Minor: \t 2\n")
	write("dev/nvidia3", "this is no device")
	for name, device := range map[string]string{"nvidia10": "/dev/zero", "nvidia2": "/dev/null", "nvidiactl": "/dev/full"} { // order: irrelevant because each is a file
		if err := os.Symlink(device, filepath.Join(root, "dev", name)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// GPUs are found in the order of their device files, with the driver's names.
func TestFindGPUs(t *testing.T) {
	root := machineWithGPUs(t)
	found := FindGPUs(root)
	dev := func(name, number string) cell.Device {
		return cell.Device{Path: filepath.Join(root, "dev", name), Number: number}
	}
	two, ten, control := dev("nvidia2", "c 1:3"), dev("nvidia10", "c 1:5"), dev("nvidiactl", "c 1:7")
	if want := []cell.GPU{{Device: two}, {ID: "GPU-3b", Device: ten}}; !slices.Equal(found.Each, want) || !slices.Equal(found.Shared, []cell.Device{control}) {
		t.Fatalf("%+v", found)
	}
	for _, one := range []struct {
		indices     []uint32
		own, others []cell.Device
	}{
		{nil, nil, []cell.Device{two, ten, control}},
		{[]uint32{1}, []cell.Device{ten, control}, []cell.Device{two}},
		{[]uint32{0, 1, 7}, []cell.Device{two, ten, control}, nil}, // 7: an index of a GPU that is gone
	} {
		if own, others := found.Own(one.indices), found.Others(one.indices); !slices.Equal(own, one.own) || !slices.Equal(others, one.others) {
			t.Errorf("%v: %v, others %v", one.indices, own, others)
		}
	}
	if found := FindGPUs(t.TempDir()); len(found.Each) > 0 || len(found.Shared) > 0 {
		t.Errorf("found %+v where there is none", found)
	}
}

// An agent offers whole GPUs, and no more than there are. If its machine has none it names them by numbers.
func TestGPUIDs(t *testing.T) {
	some := Config{GPUs: FindGPUs(machineWithGPUs(t))}
	for _, one := range []struct {
		config Config
		offers string
		want   []string
		wrong  string
	}{
		{some, "cpus:1", []string{}, ""},
		{some, "gpus:2", []string{"0", "GPU-3b"}, ""},
		{some, "gpus:3", nil, "3 GPUs are to be offered, and this machine has 2"},
		{some, "gpus:0.5", nil, "0.5 GPUs are to be offered; they are given whole, so offer a whole number of them"},
		{Config{}, "gpus:3", []string{"0", "1", "2"}, ""},
		{Config{}, "gpus:1025", nil, "1025 GPUs are to be offered, at most 1024 can be"},
	} {
		resources, err := api.ParseResources(one.offers)
		if err != nil {
			t.Fatal(err)
		}
		got, err := one.config.GPUIDs(resources)
		if !slices.Equal(got, one.want) || (err == nil) != (one.wrong == "") || err != nil && err.Error() != one.wrong {
			t.Errorf("%s: %v, %v", one.offers, got, err)
		}
	}
	if has := some.AddGPUs(api.Scalars(1, 32)); has.Scalar(api.GPUs) != 2000 {
		t.Errorf("%v", has)
	}
}

func TestNameGPUs(t *testing.T) {
	if got, err := NameGPUs([]string{"/dev/zero", "/dev/full"}); err != nil || len(got.Each) != 2 || got.Each[1].Device != (cell.Device{Path: "/dev/full", Number: "c 1:7"}) {
		t.Errorf("%+v, %v", got, err)
	}
	for path, wrong := range map[string]string{
		"/dev":              "/dev is no device file",
		"/dev/missing":      "/dev/missing: no such file or directory",
		"/dev/../dev/full":  "/dev/../dev/full is no path in /dev",
		"/dev/zero":         "/dev/zero is the same device as one before it",
		"/proc/self/root/x": "/proc/self/root/x: no such file or directory",
	} {
		if _, err := NameGPUs([]string{"/dev/zero", path}); err == nil || err.Error() != wrong {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// An executor that runs its tasks itself can use the GPUs of its tasks, and no others, also after a restart of its
// agent.
func TestExecutorsHaveTheGPUsOfTheirTasks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root keeps devices from processes")
	}
	gpus, err := NameGPUs([]string{"/dev/full", "/dev/random"})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cells := openedIn(t, folder, Config{GPUs: gpus})
	if found := cells.Found(); !found.Has(api.GPUs) {
		t.Skipf("no controller of devices here: %v", found.Lacks)
	}
	ref := api.ExecutorRef{Framework: "f1", Executor: "own"}
	if _, err := cells.Make(t.Context(), Holding{Executor: ref}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, _, err := cells.Clear(context.Background(), ref); err != nil {
			t.Error(err)
		}
	})
	child := exec.Command("/bin/sh", "-c", `while read -r _; do for name in full random; do head -c 1 /dev/$name > /dev/null 2>&1 && echo -n "$name "; done; echo; done`)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(in.Close(), child.Wait()) })
	if err := cells.Join(ref, child.Process.Pid); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	sees := func(want string) {
		t.Helper()
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || strings.TrimSpace(line) != want {
			t.Errorf("it can open %q, not %q: %v", line, want, err)
		}
	}
	task := func(id api.TaskID) *api.Task { return &api.Task{ID: id, Resources: api.Scalars(0.1, 1)} }
	hold := func(id api.TaskID, gpus ...uint32) {
		t.Helper()
		if err := cells.Hold(ref, []*api.Task{task(id)}, map[api.TaskID][]uint32{id: gpus}); err != nil {
			t.Error(err)
		}
	}
	release := func(id api.TaskID) {
		t.Helper()
		if err := cells.Release(api.TaskRef{Framework: "f1", Task: id}); err != nil {
			t.Error(err)
		}
	}
	sees("")
	hold("t1", 0)
	sees("full")
	hold("t2", 1)
	hold("t3")
	sees("full random")
	release("t1")
	sees("random")
	release("t3")
	sees("random")
	hold("t4", 0)
	again, err := OpenCells(folder, Config{GPUs: gpus})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
	held := Holding{Executor: ref, Tasks: []api.Task{*task("t2"), *task("t4")}, GPUs: map[api.TaskID][]uint32{"t2": {1}, "t4": {0}}}
	if err := again.Remember([]Holding{held}); err != nil {
		t.Fatal(err)
	}
	cells = again
	sees("full random")
	release("t2")
	sees("full")
	release("t4")
	sees("")
}
