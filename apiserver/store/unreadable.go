package store

import (
	"bytes"
	"encoding/json"
	"errors"
)

// unreadablePrefix begins the Data of an object whose value cannot be read. No codec writes it.
const unreadablePrefix = `{"unreadable":`

// Unreadable returns the Data of an object whose value in a [Shared] cannot be read, for example
// because no key decrypts it. The object has a name and the cause, but no content. It has the type
// of no kind: every codec returns an error for it. So reads and changes of the object and lists of
// its resource fail, all other resources can be used, and the object can be deleted unsafely.
func Unreadable(key Key, cause error) []byte {
	// The annotations of every kind are a map.
	metadata := map[string]string{"name": key.Name, "annotations": "unreadable"}
	if key.Namespace != "" {
		metadata["namespace"] = key.Namespace
	}
	data, err := json.Marshal(struct {
		Unreadable string            `json:"unreadable"`
		Metadata   map[string]string `json:"metadata"`
	}{cause.Error(), metadata})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return data
}

// Unreadable returns the cause if the object has the Data of [Unreadable], otherwise nil.
func (o *Object) Unreadable() error { return unreadable(o.Data) }

// Unreadable returns the cause if the record has the Data of [Unreadable], otherwise nil.
func (r *Record) Unreadable() error { return unreadable(r.Data) }

func unreadable(data []byte) error {
	if !bytes.HasPrefix(data, []byte(unreadablePrefix)) {
		return nil
	}
	var content struct {
		Unreadable string `json:"unreadable"`
	}
	if err := json.Unmarshal(data, &content); err != nil {
		return err
	}
	return errors.New(content.Unreadable)
}
