// Pointing at a name in a legend shows its series alone; a click keeps it so. Without this script the page says the same.
for (const chart of document.querySelectorAll('.chart')) {
  const items = chart.querySelectorAll('.legend li');
  let kept = null;
  const show = item => {
    chart.classList.toggle('dim', item !== null);
    for (const on of chart.querySelectorAll('.on')) on.classList.remove('on');
    if (item === null) return;
    const look = item.querySelector('.l,.k,.b').getAttribute('class').split(' ').slice(1).join('.');
    for (const of of chart.querySelectorAll('.' + look)) of.classList.add('on');
  };
  for (const item of items) {
    item.tabIndex = 0;
    item.style.cursor = 'pointer';
    const keep = () => show(kept = kept === item ? null : item);
    item.onclick = keep;
    item.onkeydown = event => { if (event.key === 'Enter') keep(); };
    item.onmouseenter = () => show(item);
    item.onmouseleave = () => show(kept);
  }
}
