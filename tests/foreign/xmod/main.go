// Checks our vectors, and makes trees of its own, with packages that are not ours: golang.org/x/mod/sumdb/note and tlog.
//
// It reads a question as JSON from standard input, and answers in JSON, in the order that things were asked in.
package main

import (
	"encoding/json"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type inclusion struct {
	Index, Size int64
	Leaf, Root  tlog.Hash
	Proof       []tlog.Hash
}

type consistency struct {
	OldSize       int64 `json:"old_size"`
	Size          int64
	OldRoot, Root tlog.Hash
	Proof         []tlog.Hash
}

type question struct {
	Notes       []struct{ Vkey, Note string }
	Inclusion   []inclusion
	Consistency []consistency
	Sign        []struct{ Secret, Text string }
	Leaves      []tlog.Hash
	Steps       []int64
}

type answer struct {
	Notes       []string               `json:"notes"`       // the text, or why it was refused
	Inclusion   []string               `json:"inclusion"`   // empty, or why it was refused
	Consistency []string               `json:"consistency"` // the same
	Signed      []string               `json:"signed"`
	Roots       []tlog.Hash            `json:"roots"`   // of the tree of every size over the leaves
	Records     map[string][]tlog.Hash `json:"records"` // index/size to proof
	Trees       map[string][]tlog.Hash `json:"trees"`   // old/new to proof
	Tiles       []map[string]tlog.Hash `json:"tiles"`   // for each step, the path of each new tile and the hash of its bytes
}

func main() {
	var asked question
	must(json.NewDecoder(os.Stdin).Decode(&asked))
	given := answer{Records: map[string][]tlog.Hash{}, Trees: map[string][]tlog.Hash{}}
	for _, one := range asked.Notes {
		given.Notes = append(given.Notes, open(one.Vkey, one.Note))
	}
	for _, one := range asked.Inclusion {
		given.Inclusion = append(given.Inclusion, words(tlog.CheckRecord(one.Proof, one.Size, one.Root, one.Index, one.Leaf)))
	}
	for _, one := range asked.Consistency {
		given.Consistency = append(given.Consistency, words(tlog.CheckTree(one.Proof, one.Size, one.Root, one.OldSize, one.OldRoot)))
	}
	for _, one := range asked.Sign {
		signer, err := note.NewSigner(one.Secret)
		must(err)
		signed, err := note.Sign(&note.Note{Text: one.Text}, signer)
		must(err)
		given.Signed = append(given.Signed, string(signed))
	}
	grow(asked.Leaves, &given)
	tiles(asked.Leaves, asked.Steps, &given)
	must(json.NewEncoder(os.Stdout).Encode(given))
}

func open(vkey, text string) string {
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return "refused: " + err.Error()
	}
	opened, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		return "refused: " + err.Error()
	}
	return opened.Text
}

// stored keeps a tree in the order of x/mod's own storage, which is not that of tiles.
type stored []tlog.Hash

func (s stored) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		found[i] = s[index]
	}
	return found, nil
}

func store(leaves []tlog.Hash) stored {
	var tree stored
	for n, leaf := range leaves {
		hashes, err := tlog.StoredHashesForRecordHash(int64(n), leaf, tree)
		must(err)
		tree = append(tree, hashes...)
	}
	return tree
}

func grow(leaves []tlog.Hash, given *answer) {
	tree := store(leaves)
	for size := int64(1); size <= int64(len(leaves)); size++ {
		root, err := tlog.TreeHash(size, tree)
		must(err)
		given.Roots = append(given.Roots, root)
		for n := int64(0); n < size; n++ {
			record, err := tlog.ProveRecord(size, n, tree)
			must(err)
			given.Records[key(n, size)] = record
			older, err := tlog.ProveTree(size, n+1, tree)
			must(err)
			given.Trees[key(n+1, size)] = older
		}
	}
}

func tiles(leaves []tlog.Hash, steps []int64, given *answer) {
	// The steps go far beyond the leaves that were sent: those of tiles are made from their numbers.
	var size, last int64
	for _, step := range steps {
		last += step
	}
	many := make([]tlog.Hash, last)
	for n := range many {
		many[n] = tlog.RecordHash([]byte(key(int64(n), last)))
	}
	tree := store(many)
	for _, step := range steps {
		found := map[string]tlog.Hash{}
		for _, tile := range tlog.NewTiles(8, size, size+step) {
			data, err := tlog.ReadTileData(tile, tree)
			must(err)
			found[strings.Replace(tile.Path(), "tile/8/", "tile/", 1)] = tlog.RecordHash(data)
		}
		given.Tiles = append(given.Tiles, found)
		size += step
	}
}

func key(a, b int64) string {
	text, err := json.Marshal([]int64{a, b})
	must(err)
	return string(text)
}

func words(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
