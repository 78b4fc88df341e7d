// Command main is the operator resizes-after-delete of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("resizes-after-delete") }
