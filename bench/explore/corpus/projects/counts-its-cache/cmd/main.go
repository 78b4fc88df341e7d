// Command main is the operator counts-its-cache of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("counts-its-cache") }
