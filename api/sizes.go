package api

import "fmt"

// What masters keep of a noun is bounded in bytes (R34). The bound is checked where the noun comes in, and again by
// every master when the change is committed. All masters must decide alike, so what a function of this file returns for
// a value must never change.

// CheckSize reports which part of a is larger than what masters keep, or nil.
func (a *Agent) CheckSize() error {
	return firstOf(
		checkBytes("the agent's ID", len(a.ID), IDBytesMax),
		checkBytes("the hostname", len(a.Hostname), IDBytesMax),
		checkBytes("the region", len(a.Region), IDBytesMax),
		checkBytes("the zone", len(a.Zone), IDBytesMax),
		checkBytes("the address", len(a.Address), IDBytesMax),
		checkBytes("the version", len(a.Version), IDBytesMax),
		checkWordsSize("attributes", a.Attributes),
		a.Resources.CheckSize("the resources"),
	)
}

// Bytes estimates how many bytes a takes in the registry.
func (a *Agent) Bytes() int {
	return 192 + len(a.ID) + len(a.Hostname) + len(a.Region) + len(a.Zone) + len(a.Address) + len(a.Version) +
		wordsSize(a.Attributes) + a.Resources.Bytes()
}

// CheckSize reports that r is larger than what masters keep of a bundle, or nil. noun says what the bundle is, for the
// error.
func (r Resources) CheckSize(noun string) error {
	return checkBytes(noun, r.Bytes(), ResourcesBytesMax)
}

// Bytes estimates how many bytes r takes in the registry.
func (r Resources) Bytes() int {
	size := 0
	for i := range r.items {
		item := &r.items[i]
		size += 48 + len(item.Name) + len(item.Reserved) + len(item.Volume) + len(item.Tag) + 24*len(item.Ranges)
		for _, word := range item.Set {
			size += 16 + len(word)
		}
	}
	return size
}

// CheckText reports that a text is longer than what masters keep, or nil. noun says what the text is, for the error.
func CheckText(noun, text string) error { return checkBytes(noun, len(text), TextBytesMax) }

func checkWordsSize(noun string, words map[string]string) error {
	if len(words) > LabelsMax {
		return fmt.Errorf("%d %s, at most %d are allowed", len(words), noun, LabelsMax)
	}
	return checkBytes("the "+noun, wordsSize(words), LabelsBytesMax)
}

func wordsSize(words map[string]string) int {
	size := 0
	for name, word := range words { // order: irrelevant because a sum is made
		size += 16 + len(name) + len(word)
	}
	return size
}

func checkBytes(noun string, size, most int) error {
	if size > most {
		return fmt.Errorf("%s: %d bytes, at most %d are allowed", noun, size, most)
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
