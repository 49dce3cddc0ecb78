package files

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestPagesOfAFolder(t *testing.T) {
	folder := t.TempDir()
	var want []string
	for i := range 25 {
		name := fmt.Sprintf("file-%02d", i)
		want = append(want, name)
		if err := os.WriteFile(filepath.Join(folder, name), make([]byte, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "z"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(folder, "y")); err != nil {
		t.Fatal(err)
	}
	want = append(want, "y", "z")
	for _, limit := range []int{0, 1, 5, 27, 28} {
		var got []string
		kinds := map[string]string{}
		for after := ""; ; {
			open, err := os.Open(folder)
			if err != nil {
				t.Fatal(err)
			}
			page, err := List(open, after, limit)
			open.Close()
			if err != nil || limit > 0 && len(page.Items) > limit {
				t.Fatalf("%d items, %v", len(page.Items), err)
			}
			for _, item := range page.Items {
				got = append(got, item.Name)
				kinds[item.Name] = item.Kind
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if !slices.Equal(got, want) || kinds["y"] != "other" || kinds["z"] != "folder" || kinds["file-03"] != "file" {
			t.Errorf("by %d: %q, %v", limit, got, kinds)
		}
	}
	open, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if page, err := List(open, "file-23x", 1); err != nil || page.Items[0].Name != "file-24" || page.Items[0].Bytes != 24 {
		t.Errorf("%+v, %v", page, err)
	}
}
