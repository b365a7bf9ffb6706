"""What the machine gives: the clock and its cancellation, threads, processes, files, progress."""
