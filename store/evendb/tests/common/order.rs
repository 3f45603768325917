//! Whether a graph has an order: nodes without predecessors are removed until no node is left. It
//! is linear in the number of edges.

/// Shows each edge of a graph, from a node to one that comes after it; the same edges at every
/// call.
pub type Edges<'e> = dyn Fn(&mut dyn FnMut(u32, u32)) -> Result<(), String> + 'e;

/// For each of `nodes` nodes, the number of its predecessors that could not be removed; `None` if
/// there is an order.
pub fn left_waiting(nodes: usize, edges: &Edges<'_>) -> Result<Option<Vec<u32>>, String> {
    let mut starts = vec![0u32; nodes + 1];
    let mut waits = vec![0u32; nodes];
    edges(&mut |from, to| {
        starts[from as usize + 1] += 1;
        waits[to as usize] += 1;
    })?;
    for node in 0..nodes {
        starts[node + 1] += starts[node];
    }
    let mut targets = vec![0u32; starts[nodes] as usize];
    let mut filled = starts.clone();
    edges(&mut |from, to| {
        targets[filled[from as usize] as usize] = to;
        filled[from as usize] += 1;
    })?;
    let free = (0..nodes as u32).filter(|&node| waits[node as usize] == 0);
    let mut ready: Vec<u32> = free.collect();
    let mut taken = 0;
    while let Some(node) = ready.pop() {
        taken += 1;
        let (from, to) = (starts[node as usize], starts[node as usize + 1]);
        for &next in &targets[from as usize..to as usize] {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                ready.push(next);
            }
        }
    }
    Ok((taken < nodes).then_some(waits))
}
